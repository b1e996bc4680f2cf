"""A chunk that comes back to a state in which it has been can never end.

The state is looked at late, when a loop already runs long, and kept at steps ever further apart,
so that the search costs a launch that ends next to nothing.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine

_FIRST = 4096  # steps before the first look
_MOST_BYTES = 256 << 20  # of memory: hashing more takes longer than the step limit


class Repetition:
    """Of one chunk in lockstep, whose next step depends on its state alone.

    `first` is the count of steps, or of polls, at which the state is first looked at.
    """

    def __init__(self, first: int = _FIRST) -> None:
        self._first = self._next = first
        self._number = -1
        self._lanes: dict[int, Array] = {}
        self._regs: list[Array] = []
        self._memory = b""
        self._turn: object = None  # the schedule's
        self._differs = 0  # the register that differed last: it will again

    def forget(self) -> None:
        """Something from outside was read: what comes may differ from what was."""
        self._number = -1

    def found(self, machine: Machine, number: int, count: int) -> bool:
        """Whether the chunk, after so many steps and now basic block `number`, repeats itself."""
        if count < self._first:
            return False
        if number == self._number and self._is_same(machine):
            return True
        if count >= self._next:
            self._next = 2 * count
            self._keep(machine, number)
        return False

    def _keep(self, machine: Machine, number: int) -> None:
        memory = _memory_of(machine)
        self._number = -1 if memory is None else number
        self._memory = memory or b""
        self._regs, self._lanes = list(machine.regs), dict(machine.ready)
        self._turn = machine.schedule.turn()

    def _is_same(self, machine: Machine) -> bool:
        pairs = list(zip(machine.regs, self._regs, strict=True))
        if pairs and not _alike(*pairs[self._differs]):
            return False
        for slot, (now, then) in enumerate(pairs):
            if not _alike(now, then):
                self._differs = slot
                return False
        if machine.schedule.turn() != self._turn or machine.ready.keys() != self._lanes.keys():
            return False
        if not all(_alike(machine.ready[at], lanes) for at, lanes in self._lanes.items()):
            return False
        return _memory_of(machine) == self._memory


def _alike(one: Array, other: Array) -> bool:
    if one is other:
        return True
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def _memory_of(machine: Machine) -> bytes | None:
    """A digest of all that the chunk may read; None where copies are on their way to it."""
    parts: list[Array] = [machine.shared.bytes, machine.local.bytes]
    parts += [np.asarray(it.array).reshape(-1).view(np.uint8) for it in machine.memory.allocations]
    if (
        machine.copies.pending
        or machine.bulk.pending
        or sum(part.size for part in parts) > _MOST_BYTES
    ):
        return None
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(np.ascontiguousarray(part).data)
    return digest.digest()
