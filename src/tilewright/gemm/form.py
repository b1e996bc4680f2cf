"""Form: what a caller's array is, without its memory: all of it that a plan may depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from tilewright.dtypes import DType
from tilewright.gemm.matrix import LARGEST_VECTOR


@dataclass(frozen=True)
class Form:
    """An array of any number of dimensions. `argument` is its name in messages.

    Strides count elements and may be 0 or negative. `alignment` is the largest power of two, 16 at
    most, that divides the address of its first element, in bytes.
    """

    argument: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    alignment: int = LARGEST_VECTOR

    @property
    def span(self) -> tuple[int, int]:
        """The bytes that its elements lie within, from and to, counted from the first element.

        (0, 0) for an array without elements.
        """
        if 0 in self.shape:
            return 0, 0
        reach = [
            (extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)
        ]
        low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
        return low * self.dtype.bytes, (high + 1) * self.dtype.bytes


def packed(argument: str, dtype: DType, shape: Sequence[int]) -> Form:
    """A row-major array of its own, as allocators make them: at a multiple of 16 bytes."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return Form(argument, dtype, tuple(shape), tuple(strides))


def alignment_of(address: int) -> int:
    """The largest power of two, 16 at most, that divides an address in bytes."""
    return gcd(address, LARGEST_VECTOR)
