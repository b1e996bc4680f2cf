"""Barriers of a chunk of blocks: who waits at which, and whom it lets go on.

Warps meet at a barrier's number, also when they wait in different instructions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import LANES, Array

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine


class Barriers:
    """The lanes of a machine that wait at barriers."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._parked: dict[int, Array] = {}  # basic block → lanes that wait in it

    def park(self, number: int, lanes: Array) -> None:
        """Lets lanes wait in the barrier that is basic block `number`."""
        if lanes.any():
            there = self._parked.get(number)
            self._parked[number] = lanes if there is None else there | lanes
            self.release()

    def release(self) -> None:
        """Lets the blocks go on whose barrier is complete."""
        meetings: dict[int, list[int]] = {}
        for number in self._parked:
            meetings.setdefault(self._barrier(number)[0], []).append(number)
        for numbers in meetings.values():
            complete = self._complete(numbers)
            if complete.any():
                if self._machine.hazards is not None:
                    self._check_split(numbers, complete)
                    self._order(numbers, complete)
                for number in numbers:
                    self._leave(number, complete)

    def clear(self) -> None:
        """Forgets those that wait: the chunk is given up."""
        self._parked.clear()

    def deadlock(self) -> None:
        """Reports those that still wait when no lane is left that could run."""
        exited = self._machine.exited
        for number, lanes in self._parked.items():
            self._machine.trace.completed = False
            block, warp, lane = (int(i) for i in np.argwhere(lanes)[0])
            elsewhere = int((~lanes[block] & ~exited[block]).sum())
            waits = f"{int(lanes[block].sum())} lanes wait here for {elsewhere} that wait elsewhere"
            self._machine.fault_at("deadlock", self._at(number), waits, block, warp, lane)

    def _complete(self, numbers: list[int]) -> Array:
        """The blocks in which the barrier that these basic blocks name has all it waits for.

        A warp arrives once all its lanes that live are there, and then counts as 32 threads.
        """
        waiting: Array = np.logical_or.reduce([self._parked[number] for number in numbers])
        arrived: Array = np.logical_and.reduce(waiting | self._machine.exited, axis=2)
        warps: Array = np.logical_or.reduce(waiting, axis=2)
        counts = [count for _, count in map(self._barrier, numbers) if count is not None]
        enough: Array = np.logical_and.reduce(arrived, axis=1)
        if counts:
            enough = LANES * (arrived & warps).sum(1) >= max(counts)
        complete: Array = enough & np.logical_or.reduce(warps, axis=1)
        return complete

    def _order(self, numbers: list[int], complete: Array) -> None:
        """What the warps did that meet lies before what they do next."""
        assert self._machine.hazards is not None  # the caller asked
        together: Array = np.logical_or.reduce([self._parked[number] for number in numbers])
        warps: Array = np.logical_or(together.any(-1), self._machine.exited.all(-1))
        self._machine.hazards.clocks.meet(complete, warps)

    def _check_split(self, numbers: list[int], complete: Array) -> None:
        """Lanes of one warp must not wait in several instructions."""
        if len(numbers) < 2:
            return
        waiting = [self._parked[number] for number in numbers]
        split = sum(lanes.any(-1).astype(np.int8) for lanes in waiting) > 1
        split = split & complete[:, None]
        if split.any():
            block, warp = (int(i) for i in np.argwhere(split)[0])
            number = max(n for n in numbers if self._parked[n][block, warp].any())
            lane = int(np.flatnonzero(self._parked[number][block, warp])[0])
            lines = sorted({self._line(n) for n in numbers})
            what = f"lanes of one warp wait at the barriers of lines {_and(lines)} at once"
            self._machine.fault_at("divergent-barrier", self._at(number), what, block, warp, lane)

    def _leave(self, number: int, complete: Array) -> None:
        waiting = self._parked.pop(number)
        go = waiting & complete[:, None, None]
        if go.any():
            self._machine.issued(number, go)
            self._machine.put(number + 1, self._machine.everyone if go.all() else go)
        if (left := waiting & ~go).any():
            self._parked[number] = left

    def _at(self, number: int) -> int:
        """The instruction of a barrier, which is a basic block of its own."""
        return self._machine.program.blocks[number].first

    def _line(self, number: int) -> int:
        return self._machine.program.kernel.instructions[self._at(number)].place.line

    def _barrier(self, number: int) -> tuple[int, int | None]:
        barrier = self._machine.program.blocks[number].barrier
        assert barrier is not None  # only barriers park
        return barrier


def _and(lines: list[int]) -> str:
    return " and ".join(map(str, lines))
