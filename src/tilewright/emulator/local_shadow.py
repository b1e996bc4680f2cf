"""Which bytes of local memory their thread has written, and which loads must find them so.

A load that only moves a value on may meet bytes that nobody wrote: the padding of a struct, or
elements of an array that is copied as a whole. What it stores counts as written from then on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.ir import TYPE_BYTES, Register, Vector
from tilewright.emulator.traits import Traits
from tilewright.emulator.uses import STORED, USED


class LocalShadow:
    """One flag a byte: [threads, bytes]."""

    def __init__(self, threads: int, row: int, traits: Traits) -> None:
        self._written = np.zeros((threads, row), bool)
        self._traits = traits

    def store(self, thread: Array, address: Array, width: int) -> None:
        for byte in range(width):
            self._written[thread, address + byte] = True

    def unset(self, at: int, thread: Array, address: Array, width: int) -> Array:
        """Threads that load something that they never wrote."""
        found = np.zeros(thread.shape, bool)
        for first, size, use in self._parts(at, width):
            known = [self._written[thread, address + first + byte] for byte in range(size)]
            if use == USED:
                found |= ~np.logical_and.reduce(known)
            elif use == STORED:
                found |= ~np.logical_or.reduce(known)
        return found

    def _parts(self, at: int, width: int) -> Iterator[tuple[int, int, int]]:
        """First byte, size and use of each element that the instruction loads."""
        instruction = self._traits.instructions[at]
        if instruction.mnemonic != "ld":
            yield 0, width, USED
            return
        into = instruction.operands[0]
        size = TYPE_BYTES[instruction.opcode.rsplit(".", 1)[1]]
        for place, item in enumerate(into.items if isinstance(into, Vector) else (into,)):
            if isinstance(item, Register):
                yield place * size, size, self._traits.uses.get(item.name, 0)
