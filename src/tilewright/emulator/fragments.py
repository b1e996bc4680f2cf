"""mma operands as matrices: registers of a warp ↔ small matrices, without repacking.

The accumulator of m16n8 is kept as one matrix [blocks·warps, 16, 8] whose four registers are
views: register (half, low) of lane l is element 64·half + 2·l + low of the row-major matrix. The
next mma that gets the same four views takes the matrix itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.numeric import bf16_value

_KEEP = 256  # accumulators; a kernel has up to 64 alive, each 512 bytes a warp
_KEEP_OPERANDS = 64


class Fragments:
    """Operands unpacked so far, found again by the identity of their register values."""

    def __init__(self, full: tuple[int, int, int]) -> None:
        self.full = full
        self.count = full[0] * full[1]
        self._operands: dict[tuple[object, ...], tuple[Sequence[Array], Array]] = {}
        self._accumulators: dict[int, tuple[Sequence[Array], Array]] = {}

    def a(self, regs: Sequence[Array], kind: str) -> Array:
        """A[n, 16, 16] of m16n8k16: register 2·k_half + m_half is an 8x8 corner, row-major."""

        def unpack(halves: Array) -> Array:
            corners = halves.reshape(2, 2, self.count, 8, 8).transpose(2, 1, 3, 0, 4)
            return _values(corners, kind).reshape(self.count, 16, 16)

        return self._cached(regs, kind, unpack)

    def b(self, regs: Sequence[Array], kind: str) -> Array:
        """B[n, 16, 8] of m16n8k16: register k_half holds its half transposed, [n, k]."""

        def unpack(halves: Array) -> Array:
            corners = halves.reshape(2, self.count, 8, 8).transpose(1, 0, 3, 2)
            return _values(corners, kind).reshape(self.count, 16, 8)

        return self._cached(regs, kind, unpack)

    def multiply_add(self, a: Array, b: Array, c: Sequence[Array]) -> list[Array]:
        """The four registers of a·b + c, in fp32."""
        product = np.matmul(a, b)
        product += self._matrix(c)
        lanes = product.reshape(*self.full[:2], 2, self.full[2], 2)
        regs = [lanes[:, :, half, :, low] for half in (0, 1) for low in (0, 1)]
        if len(self._accumulators) >= _KEEP:  # the oldest ones went elsewhere than to an mma
            del self._accumulators[next(iter(self._accumulators))]
        self._accumulators[id(regs[0])] = (regs, product)
        return regs

    def _matrix(self, regs: Sequence[Array]) -> Array:
        known = self._accumulators.pop(id(regs[0]), None)
        if known is not None and all(x is y for x, y in zip(known[0], regs, strict=True)):
            return known[1]
        matrix = np.empty((*self.full[:2], 2, self.full[2], 2), np.float32)
        for i, reg in enumerate(regs):
            matrix[:, :, i // 2, :, i % 2] = reg
        return matrix.reshape(self.count, 16, 8)

    def _cached(self, regs: Sequence[Array], kind: str, unpack: Callable[[Array], Array]) -> Array:
        key = (kind, *map(id, regs))  # the entry keeps the arrays alive, so ids stay theirs
        known = self._operands.get(key)
        if known is None:
            full = [np.broadcast_to(reg, self.full) for reg in regs]
            halves = np.stack(full).view(np.uint16)
            if len(self._operands) >= _KEEP_OPERANDS:
                self._operands.clear()
            known = self._operands[key] = (regs, unpack(halves))
        return known[1]


def _values(bits: Array, kind: str) -> Array:
    """16-bit patterns as fp32, in a new contiguous array."""
    if kind == "bf16":
        return bf16_value(np.ascontiguousarray(bits))
    return np.ascontiguousarray(bits).view(np.float16).astype(np.float32)
