"""Local memory: what belongs to one thread alone, and the parameters of functions it calls.

Addresses count from 0 in each thread. Hardware spreads a thread's words over the warp, so that
the lanes' accesses to one variable fill whole lines: so they are counted.
"""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import BY_WIDTH, LANES, POISON, Array, Mask
from tilewright.emulator.findings import Findings
from tilewright.emulator.local_shadow import LocalShadow
from tilewright.emulator.traits import Traits

_WORD = 4


class LocalMemory:
    """[blocks · warps · 32 threads, bytes], poisoned at the start."""

    def __init__(
        self, full: tuple[int, int, int], nbytes: int, traits: Traits | None = None
    ) -> None:
        """With the traits of the instructions, loads of what nobody wrote are reported."""
        self.full, self.nbytes = full, nbytes
        self._row = max(16, -(-nbytes // 16) * 16)
        threads = full[0] * full[1] * full[2]
        self.bytes = np.full((threads, self._row), POISON, np.uint8)
        self._by_width = {width: self.bytes.view(dtype) for width, dtype in BY_WIDTH.items()}
        self._thread = np.arange(threads).reshape(full)
        self._shadow = LocalShadow(threads, self._row, traits) if traits and nbytes else None

    def load(self, findings: Findings, at: int, address: Array, mask: Mask, width: int) -> Array:
        address, on = self._checked(findings, at, address, mask, width)
        if self._shadow is not None:
            unset = self._shadow.unset(at, self._thread, address, width)
            self._report(findings, at, address, unset if on is None else unset & on)
        values: Array = self._by_width[width][self._thread, address // width]
        if on is None:
            return values
        poison = np.full(width, POISON, np.uint8).view(values.dtype)[0]
        kept: Array = np.where(on, values, poison)
        return kept

    def store(
        self, findings: Findings, at: int, address: Array, mask: Mask, width: int, values: Array
    ) -> None:
        address, on = self._checked(findings, at, address, mask, width)
        values = np.broadcast_to(values, self.full)
        memory, index = self._by_width[width], address // width
        thread = self._thread
        if on is not None:
            thread, index, address, values = thread[on], index[on], address[on], values[on]
        memory[thread, index] = values
        if self._shadow is not None:
            self._shadow.store(thread, address, width)

    def bytes_of(self, thread: tuple[int, int, int]) -> Array:
        """All bytes of one thread (block of the chunk, warp, lane)."""
        row: Array = self.bytes[self._thread[thread]]
        return row

    def _report(self, findings: Findings, at: int, address: Array, unset: Array) -> None:
        if unset.any():
            findings.lanes("uninitialised", at, _never_wrote, address, unset, self.full[0], "local")

    def _checked(
        self, findings: Findings, at: int, address: Array, mask: Mask, width: int
    ) -> tuple[Array, Mask]:
        """Addresses of all threads; a thread out of bounds or misaligned is reported and off."""
        address = np.broadcast_to(address, self.full)
        mask = None if mask is None else np.broadcast_to(mask, self.full)
        outside = (address < 0) | (address > self.nbytes - width)
        misaligned = (address & (width - 1)) != 0
        if not (outside.any() or misaligned.any()):
            return address, mask
        on = np.ones(self.full, bool) if mask is None else mask
        what, blocks = f"{width} bytes of local memory", self.full[0]

        def beyond(address: int) -> str:
            return f"{what} beyond its end: a thread has {self.nbytes:,} bytes"

        def crooked(address: int) -> str:
            return f"{what} at an address that is no multiple of {width}"

        findings.lanes("out-of-bounds", at, beyond, address, outside & on, blocks, "local")
        bad = misaligned & ~outside & on
        findings.lanes("misaligned", at, crooked, address, bad, blocks, "local")
        good = ~outside & ~misaligned
        return np.where(good, address, 0), on & good


def _never_wrote(address: int) -> str:
    return "local memory that this thread never wrote"


def spread(address: Array) -> Array:
    """Where the lanes' local addresses lie in memory: word for word beside each other."""
    lane = np.arange(LANES).reshape(1, 1, LANES)
    word: Array = address // _WORD * (_WORD * LANES) + lane * _WORD + address % _WORD
    return word
