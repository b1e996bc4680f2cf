"""The machine: a chunk of blocks in lockstep, diverging and reconverging at basic blocks.

All blocks of a chunk, all their warps and lanes run the same basic block at once under a mask.
The group of lanes at the lowest program counter runs first, and groups that meet at one place
become one again: this is where compilers put reconvergence, and it makes the counts those of a
warp that stays together. A barrier is a basic block of its own where lanes park until every lane
of their block that has not exited is there.
"""

from __future__ import annotations

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import LANES, POISON, Array, Mask
from tilewright.emulator.async_groups import AsyncGroups
from tilewright.emulator.compiler import Program
from tilewright.emulator.findings import Finding
from tilewright.emulator.flow import BasicBlock
from tilewright.emulator.fragments import Fragments
from tilewright.emulator.hazards import Hazards
from tilewright.emulator.ir import Instruction
from tilewright.emulator.local import LocalMemory
from tilewright.emulator.schedule import Lockstep, Schedule
from tilewright.emulator.shared import SharedMemory
from tilewright.emulator.specials import special
from tilewright.emulator.trace import Shape, Trace

MOST_STEPS = 2_000_000  # basic blocks of a chunk; a loop that needs more is endless here
MOST_POLLS = 2048  # of a chunk in a row, before other blocks get their turn
PARAM_TAIL = 16  # poison behind the parameters, as wide as the widest load


class Machine:
    """One chunk: blocks `ids` (linear block ids, ascending) of the launch."""

    def __init__(
        self,
        program: Program,
        shape: Shape,
        ids: Array,
        trace: Trace,
        schedule: Schedule | None = None,
    ) -> None:
        self.program, self.shape, self.trace, self.ids = program, shape, trace, ids
        self.schedule = schedule or Lockstep()
        self.blocks, self.warps = len(ids), shape.warps
        self.full = (self.blocks, self.warps, LANES)
        shared_bytes = program.static_shared_bytes + shape.shared_bytes
        self.hazards = self._hazards(shared_bytes)
        self.shared = SharedMemory(self.blocks, self.warps, shared_bytes, self.hazards)
        traits = None if self.hazards is None else self.hazards.traits
        self.local = LocalMemory(self.full, program.local_bytes, traits)
        self.steps = self.polls = 0
        self.killed = np.zeros(self.full, bool)
        self.memory, self.findings, self.counters = trace.memory, trace.findings, trace.counters
        self.params = np.frombuffer(shape.params + bytes([POISON]) * PARAM_TAIL, np.uint8)
        self.copies = AsyncGroups()
        self.fragments = Fragments(self.full)
        self.regs = self._registers(ids)
        self.everyone = np.ones(self.full, bool)  # recognised by identity, without a look inside
        self.nobody = np.zeros(self.full, bool)
        self.exited = self.nobody
        self.ready: dict[int, Array] = {}  # basic block → lanes that are about to run it
        self.parked: dict[int, Array] = {}  # barrier block → lanes that wait in it

    def _hazards(self, shared_bytes: int) -> Hazards | None:
        if self.trace.arrays is None:
            return None
        return Hazards(
            self.blocks,
            self.warps,
            shared_bytes,
            self.trace.findings,
            self.trace.arrays,
        )

    def _registers(self, ids: Array) -> list[Array]:
        program = self.program
        empty = np.zeros((1, 1, 1), np.uint8)
        regs: list[Array] = [empty] * program.slots
        for slot, dtype in enumerate(program.types):
            raw = np.full(dtype.itemsize, 0 if dtype.kind == "b" else POISON, np.uint8)
            regs[slot] = raw.view(dtype).reshape(1, 1, 1)
        for slot in program.flags:
            regs[slot] = np.zeros((1, 1, 1), bool)
        for slot, value in program.constants:
            regs[slot] = value
        for slot, name in program.specials:
            regs[slot] = special(name, self.shape, ids, self.shared.nbytes)
        for slot, name, offset in program.variable_slots:
            address = self.memory.variable(program.variables[name]) + offset
            regs[slot] = np.full((1, 1, 1), address % (1 << 64), np.uint64)
        return regs

    # --- scheduling ---------------------------------------------------------------------

    def start(self) -> None:
        """Puts all threads at the kernel's first instruction."""
        lanes = np.arange(self.warps * LANES).reshape(1, self.warps, LANES)
        exists = np.broadcast_to(lanes < self.shape.threads, self.full)
        self.exited = ~exists
        self.ready[0] = self.everyone if exists.all() else exists

    def run(self) -> bool:
        """Runs the chunk to its end, or to the fault that it reports: True.

        False when its lanes do nothing but poll memory: other blocks must run first.
        """
        self.memory.hazards = self.hazards
        self.findings.first_block = int(self.ids[0])
        self.polls = 0
        polling = self.program.polling
        with np.errstate(all="ignore"):
            while self.ready:
                number, lanes = self.schedule.take(self.ready, polling)
                self._run_block(number, lanes)
                self.steps += 1
                if number in polling:
                    self.polls += 1
                    if self.polls > MOST_POLLS:
                        return False
                if self.steps > MOST_STEPS:
                    self.stuck(f"{MOST_STEPS:,} steps did not end it")
        if self.parked:
            self._deadlock()
        return True

    def _check_whole(self, at: int, lanes: Array) -> None:
        """A collective instruction with a part of a warp's living lanes is undefined."""
        some = lanes.any(-1, keepdims=True)
        missing = some & ~lanes & ~self.exited
        if missing.any():
            here = lanes & missing.any(-1, keepdims=True)
            self.fault("divergent-aligned", at, "not all lanes of the warp are here", here)

    def check_partners(self, at: int, there: Array, valid: Array, mask: Mask) -> None:
        """A shuffle from a lane that does not take part gives no value."""
        if self.hazards is None:
            return
        active = ~self.exited if mask is None else np.broadcast_to(mask, self.full)
        if not active.all():
            reads = np.broadcast_to(valid, self.full) & active
            silent = reads & ~np.take_along_axis(active, there, 2)
            self.fault("inactive-lane", at, "it reads from a lane that takes no part", silent)

    def unset_register(self, at: int, name: str, unset: Array, mask: Mask) -> None:
        """Reports the active lanes that read a register which nothing wrote."""
        if unset.any():
            on = np.broadcast_to(unset if mask is None else unset & mask, self.full)
            self.fault("uninitialised", at, f"it reads {name}, which nothing wrote", on)

    def stuck(self, why: str) -> None:
        """Reports an endless loop, and gives the chunk up."""
        self.trace.completed = False
        number = min(self.ready)
        block, warp, lane = (int(i) for i in np.argwhere(self.ready[number])[0])
        at = min(self.program.blocks[min(number, len(self.program.blocks) - 1)].first,
                 len(self.program.kernel.instructions) - 1)  # fmt: skip
        self._fault("endless-loop", at, why, block, warp, lane)
        self.ready.clear()
        self.parked.clear()

    def _run_block(self, number: int, lanes: Array) -> None:
        if number == len(self.program.blocks):  # fell off the end
            self._exit(lanes)
            return
        block = self.program.blocks[number]
        if block.barrier is not None:
            self._park(number, block, lanes)
            return
        mask = None if lanes is self.everyone or lanes.all() else lanes
        self._issued(number, lanes)
        if mask is not None and number in self.program.aligned and self.hazards is not None:
            self._check_whole(self.program.aligned[number], lanes)
        for step in block.steps:
            step(self, mask)
        if self.killed.any():
            self._exit(lanes & self.killed)
            lanes = lanes & ~self.killed
            self.killed = np.zeros(self.full, bool)
            if not lanes.any():
                return
        taken, rest = self._split(block, lanes)
        self._put(number + 1, rest)
        if block.end is not None and taken.any():
            if block.end.mnemonic == "bra":
                self._put(block.target, taken)
            else:
                self._exit(taken)
                if block.end.mnemonic == "trap":
                    self._trap(number, taken)

    def _split(self, block: BasicBlock, lanes: Array) -> tuple[Array, Array]:
        """The lanes that do what the block's end says, and those that go on behind it."""
        if block.end is None:
            return self.nobody, lanes
        if block.guard is None:
            return lanes, self.nobody
        holds = block.guard(self.regs)
        if holds.all():
            return lanes, self.nobody
        if not holds.any():
            return self.nobody, lanes
        return lanes & holds, lanes & ~holds

    def _put(self, number: int, lanes: Array) -> None:
        """Adds lanes at a basic block; they merge with those that are there already."""
        if lanes is self.nobody or not lanes.any():
            return
        there = self.ready.get(number)
        self.ready[number] = lanes if there is None else there | lanes

    def _issued(self, number: int, lanes: Array) -> None:
        everyone = self.blocks * self.warps
        warps = everyone if lanes is self.everyone else int(lanes.any(-1).sum())
        self.trace.issues[number] += warps

    def _exit(self, lanes: Array) -> None:
        self.exited = self.exited | lanes
        self._release()  # who waits at a barrier no longer waits for these

    # --- barriers -----------------------------------------------------------------------

    def _park(self, number: int, block: BasicBlock, lanes: Array) -> None:
        """Lets lanes wait in a barrier; those whose guard is false go on."""
        waiting, rest = self._split(block, lanes)
        self._put(number + 1, rest)
        if waiting.any():
            there = self.parked.get(number)
            self.parked[number] = waiting if there is None else there | waiting
            self._release()

    def _release(self) -> None:
        """Lets the blocks go on whose barrier is complete.

        Warps meet at the barrier's number, also when they wait in different instructions.
        """
        meetings: dict[int, list[int]] = {}
        for number in self.parked:
            meetings.setdefault(self._barrier(number)[0], []).append(number)
        for numbers in meetings.values():
            complete = self._complete(numbers)
            if complete.any():
                if self.hazards is not None:
                    self._order(numbers, complete)
                for number in numbers:
                    self._leave(number, complete)

    def _order(self, numbers: list[int], complete: Array) -> None:
        """The barrier orders the warps that wait in it, and shows lanes that it divides."""
        assert self.hazards is not None
        waiting = [self.parked[number] for number in numbers]
        together: Array = np.logical_or.reduce(waiting)
        warps: Array = np.logical_or(together.any(-1), self.exited.all(-1))
        if len(numbers) > 1:
            split = sum(lanes.any(-1).astype(np.int8) for lanes in waiting) > 1
            split = split & complete[:, None]
            if split.any():
                block, warp = (int(i) for i in np.argwhere(split)[0])
                number = max(n for n in numbers if self.parked[n][block, warp].any())
                lane = int(np.flatnonzero(self.parked[number][block, warp])[0])
                lines = sorted({self._end(n).place.line for n in numbers})
                what = f"lanes of one warp wait at the barriers of lines {_and(lines)} at once"
                at = self.program.blocks[number].last - 1
                self._fault("divergent-barrier", at, what, block, warp, lane)
        self.hazards.clocks.meet(complete, warps)

    def _end(self, number: int) -> Instruction:
        end = self.program.blocks[number].end
        assert end is not None  # barriers and exits have one
        return end

    def _leave(self, number: int, complete: Array) -> None:
        waiting = self.parked.pop(number)
        go = waiting & complete[:, None, None]
        if go.any():
            self._issued(number, go)
            self._put(number + 1, self.everyone if go.all() else go)
        if (left := waiting & ~go).any():
            self.parked[number] = left

    def _complete(self, numbers: list[int]) -> Array:
        """The blocks in which the barrier that these basic blocks name has all it waits for.

        A warp arrives once all its lanes that live are there, and then counts as 32 threads.
        """
        waiting: Array = np.logical_or.reduce([self.parked[number] for number in numbers])
        arrived: Array = np.logical_and.reduce(waiting | self.exited, axis=2)
        warps: Array = np.logical_or.reduce(waiting, axis=2)
        counts = [count for _, count in map(self._barrier, numbers) if count is not None]
        enough: Array = np.logical_and.reduce(arrived, axis=1)
        if counts:
            enough = LANES * (arrived & warps).sum(1) >= max(counts)
        complete: Array = enough & np.logical_or.reduce(warps, axis=1)
        return complete

    def _barrier(self, number: int) -> tuple[int, int | None]:
        barrier = self.program.blocks[number].barrier
        assert barrier is not None  # only barriers park
        return barrier

    # --- faults -------------------------------------------------------------------------

    def check_params(self, at: int, offset: Array, width: int, mask: Mask) -> Array:
        """Reports loads that leave .param space and sends them to the poison behind it."""
        end = self.params.size - PARAM_TAIL
        bad: Array = (offset < 0) | (offset > end - width)
        if not bad.any():
            return offset
        on = np.broadcast_to(bad if mask is None else bad & mask, self.full)
        what = f"{width} bytes of parameters beyond their end"
        where = np.broadcast_to(offset, self.full)
        self.findings.lanes("out-of-bounds", at, what, where, on, self.blocks, None)
        return np.where(bad, end, offset)

    def _deadlock(self) -> None:
        self.trace.completed = False
        for number, lanes in self.parked.items():
            block, warp, lane = (int(i) for i in np.argwhere(lanes)[0])
            elsewhere = int((~lanes[block] & ~self.exited[block]).sum())
            waits = f"{int(lanes[block].sum())} lanes wait here for {elsewhere} that wait elsewhere"
            at = self.program.blocks[number].last - 1
            self._fault("deadlock", at, waits, block, warp, lane)

    def _trap(self, number: int, lanes: Array) -> None:
        self.trace.completed = False
        first = [int(i) for i in np.argwhere(lanes)[0]]
        at = self.program.blocks[number].last - 1
        self._fault("trap", at, "the kernel executed a trap", *first)

    def acquire(self, access: Access) -> None:
        """A strong load or an atomic may learn what another block has told at this address."""
        if self.hazards is not None:
            self.hazards.acquire(access)

    def release(self, access: Access) -> None:
        """A strong store or an atomic tells others what lies before the last fence."""
        if self.hazards is not None:
            self.hazards.release(access)

    def exchange(self, access: Access) -> None:
        """An atomic of global memory learns and tells."""
        if self.hazards is not None:
            self.hazards.exchange(access)

    def sync_warps(self, mask: Mask) -> None:
        """__syncwarp orders what the lanes of a warp did."""
        if self.hazards is not None:
            self.hazards.clocks.sync_warps(mask)

    def fence(self, mask: Mask) -> None:
        if self.hazards is not None:
            self.hazards.fence(mask)

    def kill(self, lanes: Array) -> None:
        """These lanes end at the end of the basic block that they are in."""
        self.killed = self.killed | lanes

    def fault(self, kind: str, at: int, what: str, lanes: Array) -> None:
        """Reports a fault of the first of these lanes [b, W, 32] at an instruction."""
        where = np.argwhere(np.broadcast_to(lanes, self.full))
        if len(where):
            self._fault(kind, at, what, *(int(i) for i in where[0]))

    def _fault(self, kind: str, at: int, what: str, block: int, warp: int, lane: int) -> None:
        instruction = self.program.kernel.instructions[at]
        block += self.findings.first_block
        message = (
            f"{kind} at {instruction.text!r}: {what} (block {block}, warp {warp}, lane {lane})"
        )
        place = instruction.place
        finding = Finding(kind, message, place.file, place.line, block, warp, lane)
        self.findings.add(finding, at)


def _and(lines: list[int]) -> str:
    return " and ".join(map(str, lines))
