"""Problem: which product is asked for, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import SupportsIndex

from tilewright.dtypes import DType
from tilewright.errors import InputError

_LARGEST = 2**31 - 1  # the kernels take extents as int


LAYOUTS = ("nn", "nt", "tn", "tt")  # of A and B: as written, or t for transposed


@dataclass(frozen=True)
class Problem:
    """C[m, n] = A[m, k] · B[k, n], operands and result of one type. C is row-major; `layout` says
    the same of A and B (n), or that they lie transposed (t): "nt" is B stored [n, k].

    Raises: InputError when an extent is not between 1 and 2³¹ − 1, or for an unknown layout.
    """

    m: int
    n: int
    k: int
    dtype: DType
    layout: str = "nn"

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            extent = getattr(self, name)
            if not 1 <= whole(name, extent) <= _LARGEST:
                raise InputError(f"{name}={extent} must be between 1 and {_LARGEST}.")
        if self.layout not in LAYOUTS:
            raise InputError(f"layout={self.layout!r} must be one of {', '.join(LAYOUTS)}.")

    @property
    def flops(self) -> int:
        """Multiplications and additions: 2·m·n·k."""
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """The least traffic: A and B read once, C written once."""
        return self.dtype.bytes * (self.m * self.k + self.k * self.n + self.m * self.n)

    def __str__(self) -> str:
        layout = "" if self.layout == "nn" else f" {self.layout}"
        return f"{self.m}×{self.n}×{self.k}{layout} {self.dtype.name}"


def whole(name: str, value: object) -> int:
    """An int, from any type of whole number. Raises InputError for others, also for 128.0."""
    if not isinstance(value, SupportsIndex):
        raise InputError(f"{name}={value!r} must be a whole number.")
    return index(value)


def nearest_multiple(value: int, multiple: int) -> int:
    """The multiple nearest to `value` that a Problem accepts."""
    nearest = (value + multiple // 2) // multiple * multiple
    return min(max(multiple, nearest), _LARGEST // multiple * multiple)
