"""Launch: one record of what runs, where and with which parameters, the same for every engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.build import Artifact

Dim3 = tuple[int, int, int]

GRID_LIMITS = (2**31 - 1, 65535, 65535)  # CUDA C++ Programming Guide, compute capability 3.0+
BLOCK_LIMITS = (1024, 1024, 64)

# The C struct of cuda/tile/gemm_args.cuh, field for field; `align` gives C's own padding.
GEMM_ARGS = np.dtype(
    [("A", "u8"), ("B", "u8"), ("C", "u8"), ("M", "i4"), ("N", "i4"), ("K", "i4")], align=True
)


def gemm_args(a: int, b: int, c: int, m: int, n: int, k: int) -> bytes:
    """The bytes of a GemmArgs: three device addresses and the extents in elements."""
    record = np.zeros((), GEMM_ARGS)
    for field, value in zip(GEMM_ARGS.names or (), (a, b, c, m, n, k), strict=True):
        record[field] = value
    return record.tobytes()


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    `params` holds one `bytes` a kernel parameter, in C's layout (pointers are device addresses
    of the engine that runs it). `shared_bytes` is dynamic shared memory. Grid and cluster count
    blocks, never clusters.
    Raises: InputError when a dimension breaks CUDA's limits.
    """

    artifact: Artifact
    kernel: str
    grid: Dim3
    block: Dim3
    params: tuple[bytes, ...]
    shared_bytes: int = 0
    cluster: Dim3 = (1, 1, 1)

    def __post_init__(self) -> None:
        check_dims("grid", self.grid, GRID_LIMITS)
        check_dims("cluster", self.cluster, GRID_LIMITS)
        if self.shared_bytes < 0:
            raise InputError(f"shared_bytes={self.shared_bytes} must be 0 or more.")
        check_dims("block", self.block, BLOCK_LIMITS)
        if (threads := prod(self.block)) > 1024:
            raise InputError(f"block={self.block} has {threads} threads; CUDA allows 1024.")


def dim3(what: str, extents: Sequence[int], limits: Dim3) -> Dim3:
    """One to three extents as three, the missing ones 1. Raises InputError beyond the limits."""
    if not 1 <= len(extents) <= 3:
        raise InputError(f"{what}={tuple(extents)} must have 1 to 3 extents.")
    x, y, z = (*(int(extent) for extent in extents), 1, 1)[:3]
    check_dims(what, (x, y, z), limits)
    return x, y, z


def check_dims(what: str, dims: Dim3, limits: Dim3) -> None:
    """Raises InputError unless each of the three dimensions is between 1 and its own limit."""
    for axis, size, limit in zip("xyz", dims, limits, strict=True):
        if not 1 <= size <= limit:
            raise InputError(f"{what}.{axis}={size} must be between 1 and {limit}.")
