"""Matrix descriptors of wgmma: where in shared memory every 16 bytes of an operand lie.

PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout" and "Matrix Descriptor".
All is added up in bytes of the block's shared memory; the swizzle then exchanges bits of that
sum, so that a start inside a swizzled atom (the next step along k) names the right bytes too.
An H200 reads the same bytes, of 2,880 descriptors, 615 with a base offset that a swizzle goes by
(tests/data/silicon/wgmma.npz).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilewright.emulator.arrays import Array

PIECE = 16  # bytes: what a swizzle moves as one, and the unit of every field
_FIELD = 0x3FFF  # 14 bits, in units of PIECE
_LINES = {0: 16, 1: 128, 2: 64, 3: 32}  # swizzle mode → bytes of a row of its atom
_K_BYTES = 32  # of one instruction, whatever the type
_K_16_BITS = 16  # elements along k: only 16-bit types may lie along m or n


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The fields of a descriptor: `start`, `leading` and `stride` in bytes.

    `swizzle` is 0 (none), 1 (128 bytes), 2 (64) or 3 (32). `base` says by how many lines of 128
    bytes the pattern of the swizzle begins after a multiple of its length.
    """

    start: int
    leading: int
    stride: int
    base: int
    swizzle: int

    @classmethod
    def of(cls, bits: int) -> Descriptor:
        """Reads 64 bits; those that the ISA reserves do not matter."""
        start, leading, stride = (PIECE * (bits >> at & _FIELD) for at in (0, 16, 32))
        return cls(start, leading, stride, bits >> 49 & 7, bits >> 62)

    @property
    def line(self) -> int:
        """Bytes of a row of the atom of 8 rows."""
        return _LINES[self.swizzle]

    def swizzled(self, address: Array) -> Array:
        """The address that a sum of offsets stands for."""
        address = address & (PIECE * _FIELD + PIECE - 1)
        if not self.swizzle:
            return address
        row = (address >> 7) - self.base & self.line // PIECE - 1
        moved: Array = address ^ row << 4
        return moved


@lru_cache(maxsize=4096)
def pieces(bits: int, extent: int, along: bool) -> Array:
    """Byte addresses of an operand's pieces, int64 [2 · extent].

    `extent` is m or n. K-major: row-major [extent, 2], the halves of the 32 bytes along k.
    `along` m or n: [16, extent / 8], for each k the elements by eights.
    Cost: 20 µs the first time.
    """
    desc = Descriptor.of(bits)
    rows = (_along_extent if along else _along_k)(desc, extent)
    found = desc.swizzled(desc.start + rows).reshape(-1)
    found.flags.writeable = False
    return found


def _along_k(desc: Descriptor, extent: int) -> Array:
    """Atoms of 8 rows, `stride` apart; without a swizzle the second half of k is `leading` off."""
    row, half = np.arange(extent)[:, None], np.arange(_K_BYTES // PIECE)[None]
    apart = PIECE if desc.swizzle else desc.leading
    offsets: Array = row % 8 * desc.line + row // 8 * desc.stride + half * apart
    return offsets


def _along_extent(desc: Descriptor, extent: int) -> Array:
    """Atoms of 8 k; the next 8 are `stride` off, the next atom along m or n `leading`.

    Without a swizzle these two change places.
    """
    k, piece = np.arange(_K_16_BITS)[:, None], np.arange(extent // 8)[None]
    wide = desc.line // PIECE
    beside, below = desc.leading, desc.stride
    if not desc.swizzle:
        beside, below = below, beside
    offsets: Array = piece % wide * PIECE + piece // wide * beside
    return offsets + k % 8 * desc.line + k // 8 * below
