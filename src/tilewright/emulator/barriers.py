"""Barriers of a chunk of blocks: who has come to which, and whom it lets go on.

Threads meet at a barrier's number, also when they are in different instructions. A warp has come
once all its lanes that live are there, and then counts as 32 threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import LANES, Array
from tilewright.emulator.barrier_forms import Barrier, problem

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine

_Key = tuple[int, int | None]  # the basic block that a barrier is, and the count that it names

_REDUCTIONS: dict[str, Callable[[Array], Array]] = {  # of the threads that say yes, no
    "popc": lambda votes: votes[0].astype(np.uint32),
    "and": lambda votes: votes[1] == 0,
    "or": lambda votes: votes[0] > 0,
}


class _Meeting:
    """Who has come to the barrier of one number, in all blocks."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.waiting: dict[_Key, Array] = {}  # lanes [B, W, 32]
        self.arriving = machine.nobody  # lanes that do not wait, of warps that are not complete
        self.arrived = np.zeros(machine.full[:2], np.int64)  # how often each warp has, unwaiting
        self.promised = np.zeros(machine.blocks, np.int64)  # the count that these named

    def wait(self, key: _Key, lanes: Array) -> None:
        """These lanes wait from now on."""
        there = self.waiting.get(key)
        self.waiting[key] = lanes if there is None else there | lanes

    def arrive(self, lanes: Array, count: int | None) -> None:
        """These lanes have come, and wait for nobody."""
        self.arriving = self.arriving | lanes
        promised = np.where(lanes.any((1, 2)), count or 0, 0)
        self.promised = np.maximum(self.promised, promised)

    def together(self) -> Array:
        """The lanes that wait."""
        lanes = list(self.waiting.values())
        if len(lanes) == 1:
            return lanes[0]
        together: Array = np.logical_or.reduce([self.machine.nobody, *lanes])
        return together

    def came(self, together: Array) -> Array:
        """How many threads of each block have come, by whole warps."""
        whole = (together | self.machine.exited).all(-1) & together.any(-1)
        came: Array = LANES * (whole + self.arrived).sum(1)
        return came

    def needed(self) -> Array:
        """How many threads must come, in each block; 0 where nobody has."""
        needed = self.promised
        for (_, count), lanes in self.waiting.items():
            wanted: int | Array = count if count is not None else self._everyone()
            needed = np.maximum(needed, np.where(lanes.any((1, 2)), wanted, 0))
        return needed

    def _everyone(self) -> Array:
        """Threads of all warps but those that are gone without having arrived."""
        gone = self.machine.exited.all(-1) & (self.arrived == 0)
        everyone: Array = LANES * (~gone).sum(1)
        return everyone

    def open_blocks(self) -> Array:
        """The blocks where threads wait for all that live."""
        uncounted = [lanes for (_, count), lanes in self.waiting.items() if count is None]
        blocks = np.zeros(self.machine.blocks, bool)
        for lanes in uncounted:
            blocks |= lanes.any((1, 2))
        return blocks

    def is_over(self) -> bool:
        """Whether nobody is left of those that had come."""
        return not (self.waiting or self.arrived.any() or self.arriving.any())


class Barriers:
    """The barriers of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._meetings: dict[int, _Meeting] = {}  # by the barrier's number

    def come(self, block: int, lanes: Array) -> None:
        """Lanes come to the barrier that is this basic block: some wait, some only arrive."""
        if not lanes.any():
            return
        barrier = self._barrier(block)
        for number, count, who in self._named(barrier, lanes):
            if why := problem(number, count):
                self._machine.fault("invalid-barrier", self._at(block), why, who)
                self._go_on(block, who)
                continue
            meeting = self._meetings.setdefault(number, _Meeting(self._machine))
            if barrier.waits:
                meeting.wait((block, count), who)
            else:
                meeting.arrive(who, count)
                self._go_on(block, who)
            self._settle(number, meeting)

    def release(self) -> None:
        """Lets the blocks go on whose barriers are complete, after lanes have exited."""
        for number, meeting in list(self._meetings.items()):
            self._settle(number, meeting)

    def clear(self) -> None:
        """Forgets those that wait: the chunk is given up."""
        self._meetings.clear()

    def deadlock(self) -> None:
        """Reports those that still wait when no lane is left that could run."""
        for number, meeting in self._meetings.items():
            for block, count in meeting.waiting:
                self._machine.trace.completed = False
                self._report_deadlock(number, meeting, (block, count))

    # --- who is there -------------------------------------------------------------------

    def _named(self, barrier: Barrier, lanes: Array) -> Iterator[tuple[int, int | None, Array]]:
        """Number and count that these lanes name: in registers they may differ."""
        number, count = barrier.number, barrier.count
        if isinstance(number, int) and (count is None or isinstance(count, int)):
            yield number, count, lanes
            return
        regs, full = self._machine.regs, self._machine.full
        numbers = number if isinstance(number, int) else number(regs)
        counts = 0 if count is None else count if isinstance(count, int) else count(regs)
        both = np.asarray(numbers).astype(np.int64) << 32 | np.asarray(counts).astype(np.int64)
        both = np.broadcast_to(both, full)
        for pair in np.unique(both[lanes]).tolist():
            named = None if count is None else pair & 0xFFFF_FFFF
            yield pair >> 32 & 0xFFFF_FFFF, named, lanes & (both == pair)

    def _settle(self, number: int, meeting: _Meeting) -> None:
        """Ends the meeting in the blocks where all have come."""
        if meeting.arriving.any():
            self._count_arrivals(number, meeting)
        together = meeting.together()
        needed = meeting.needed()
        complete = (needed > 0) & (meeting.came(together) >= needed)
        if complete.any():
            if self._machine.hazards is not None:
                self._check_split(meeting, complete)
                self._check_exited(meeting, complete)
                self._order(number, meeting, complete, together)
            self._reduce(meeting, complete)
            for key in list(meeting.waiting):
                self._leave(meeting, key, complete)
            meeting.arrived[complete] = meeting.promised[complete] = 0
        if meeting.is_over():
            del self._meetings[number]

    def _count_arrivals(self, number: int, meeting: _Meeting) -> None:
        arriving = meeting.arriving
        whole: Array = np.logical_and.reduce(arriving | self._machine.exited, axis=2)
        whole = np.logical_and(whole, arriving.any(-1))
        if whole.any():
            meeting.arrived += whole
            meeting.arriving = arriving & ~whole[..., None]
            if self._machine.hazards is not None:
                self._machine.hazards.clocks.tell(number, whole)

    def _order(self, number: int, meeting: _Meeting, complete: Array, together: Array) -> None:
        """What those did that have come lies before what those do next that have waited."""
        assert self._machine.hazards is not None  # the caller asked
        gone = self._machine.exited.all(-1) & meeting.open_blocks()[:, None]
        self._machine.hazards.clocks.meet(complete, together.any(-1) | gone, number)

    def _reduce(self, meeting: _Meeting, complete: Array) -> None:
        """Gives those that wait in a bar.red what all of them say together."""
        votes = np.zeros((2, self._machine.blocks, 1, 1), np.int64)
        reducing: list[tuple[Barrier, Array]] = []
        for (block, _), lanes in meeting.waiting.items():
            barrier = self._barrier(block)
            if barrier.predicate is not None:
                reducing.append((barrier, lanes & complete[:, None, None]))
                yes = lanes & barrier.predicate(self._machine.regs)
                votes += [each.sum((1, 2), keepdims=True) for each in (yes, lanes & ~yes)]
        for barrier, lanes in reducing:
            assert barrier.put is not None  # whoever reduces has a destination
            barrier.put(self._machine.regs, _REDUCTIONS[barrier.reduction](votes), lanes)

    def _leave(self, meeting: _Meeting, key: _Key, complete: Array) -> None:
        waiting = meeting.waiting.pop(key)
        go = waiting & complete[:, None, None]
        if go.any():
            self._go_on(key[0], self._machine.everyone if go.all() else go)
        if (left := waiting & ~go).any():
            meeting.waiting[key] = left

    def _go_on(self, block: int, lanes: Array) -> None:
        self._machine.issued(block, lanes)
        self._machine.put(block + 1, lanes)

    # --- findings -----------------------------------------------------------------------

    def _check_split(self, meeting: _Meeting, complete: Array) -> None:
        """Lanes of one warp must not wait in several instructions."""
        if len(meeting.waiting) < 2:
            return
        parts = sum(lanes.any(-1).astype(np.int8) for lanes in meeting.waiting.values())
        split = (parts > 1) & complete[:, None]
        if split.any():
            block, warp = (int(i) for i in np.argwhere(split)[0])
            here = [key for key, lanes in meeting.waiting.items() if lanes[block, warp].any()]
            last = max(here, key=lambda key: key[0])
            lane = int(np.flatnonzero(meeting.waiting[last][block, warp])[0])
            lines = sorted({self._line(number) for number, _ in meeting.waiting})
            where = f"the barriers of lines {_and(lines)}"
            if len(lines) == 1:
                where = f"several barriers of line {lines[0]}"
            what = f"lanes of one warp wait at {where} at once"
            at = self._at(last[0])
            self._machine.fault_at("divergent-barrier", at, what, block, warp, lane)

    def _check_exited(self, meeting: _Meeting, complete: Array) -> None:
        """A barrier for the whole block wants threads that are gone; not after a trap."""
        machine = self._machine
        if machine.exited is machine.absent or not machine.trace.completed:
            return
        gone = machine.exited & ~machine.absent & (complete & meeting.open_blocks())[:, None, None]
        for (number, count), lanes in meeting.waiting.items():
            missed = gone & lanes.any((1, 2), keepdims=True)
            if count is None and missed.any():
                block, warp, lane = (int(i) for i in np.argwhere(missed)[0])
                what = (
                    f"{int(missed[block].sum())} threads of the block ended without coming here, "
                    f"the first of them lane {lane} of warp {warp}: all must pass, so it may not "
                    "stand behind a branch or a return that some take"
                )
                first = (int(i) for i in np.argwhere(lanes[block])[0])
                machine.fault_at("divergent-barrier", self._at(number), what, block, *first)

    def _report_deadlock(self, number: int, meeting: _Meeting, key: _Key) -> None:
        machine, lanes, together = self._machine, meeting.waiting[key], meeting.together()
        block, warp, lane = (int(i) for i in np.argwhere(lanes)[0])
        whole = (together | machine.exited)[block].all(-1)
        some = int(together[block, ~whole].sum() + meeting.arriving[block].sum())
        elsewhere = int((~together[block] & ~machine.exited[block]).sum())
        gone = int((machine.exited & ~machine.absent)[block].sum())
        what = (
            f"{int(lanes[block].sum())} lanes wait here at barrier {number}, to which "
            f"{int(meeting.came(together)[block]) + some} of {int(meeting.needed()[block])} "
            f"threads have come; {elsewhere} wait elsewhere and {gone} have exited"
        )
        machine.fault_at("deadlock", self._at(key[0]), what, block, warp, lane, number)

    # --- the program --------------------------------------------------------------------

    def _at(self, block: int) -> int:
        """The instruction of a barrier, which is a basic block of its own."""
        return self._machine.program.blocks[block].first

    def _line(self, block: int) -> int:
        return self._machine.program.kernel.instructions[self._at(block)].place.line

    def _barrier(self, block: int) -> Barrier:
        barrier = self._machine.program.blocks[block].barrier
        assert isinstance(barrier, Barrier)  # nobody comes to any other block
        return barrier


def _and(lines: list[int]) -> str:
    return " and ".join(map(str, lines))
