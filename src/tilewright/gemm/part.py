"""Part: one thing that is done to a sum on its way to memory, with three faces.

In C++ a part is a type with `float operator()(float x, int row, int col) const`, as
cuda/tile/epilogue.cuh has it, and `void select(int batch)`, which moves its pointers to one matrix
of the batch. Its fields arrive as a struct whose size is a multiple of 8 bytes, so that the structs
of a chain lie one behind the other as the fields of one record do. In NumPy it is a function of
float64 arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tilewright.gemm.matrix import Matrix
from tilewright.gemm.step import Value

Wide = npt.NDArray[np.float64]


class Part(Protocol):
    """A frozen, hashable dataclass: all that plans and compiled kernels depend on, no addresses.

    `cpp` is the C++ type and `header` the file under cuda/ that has it. `operands` are the
    matrices that it reads, by their names ("bias"): a vector along N is a matrix of M rows whose
    row stride is 0. `fields` are those of its struct, in `launch.Record`'s words, each with its
    value; 4-byte fields come in pairs. `columns` is how many columns of the product one column of
    the result takes: 2 for a gate and what it gates.
    """

    @property
    def cpp(self) -> str: ...
    @property
    def header(self) -> str: ...
    @property
    def operands(self) -> Mapping[str, Matrix]: ...
    @property
    def fields(self) -> tuple[tuple[str, str, Value], ...]: ...
    @property
    def columns(self) -> int: ...

    def numpy(self, x: Wide, operands: Mapping[str, npt.NDArray[Any]]) -> Wide:
        """What it makes of sums x[..., m, n], in float64: the meaning that kernels are held to."""
        ...
