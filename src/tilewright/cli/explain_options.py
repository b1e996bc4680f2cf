"""Kinds of options that several `explain` commands have, and what they share in reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tilewright.cli.options import Whole
from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.gpus import Gpu

M = Annotated[Whole, Parameter(name=["-m", "--m"])]
N = Annotated[Whole, Parameter(name=["-n", "--n"])]
K = Annotated[Whole, Parameter(name=["-k", "--k"])]
Number = Annotated[float, Parameter(allow_leading_hyphen=True)]
MaybeNumber = Annotated[float | None, Parameter(allow_leading_hyphen=True)]
GpuName = Annotated[
    str,
    Parameter(help="The GPU: a100, h100, h200, l40s, rtx3080, rtx3090, rtx4090, rtx5060, rtx5090."),
]

MOST = 1 << 31  # of an extent of a matrix or a tile; the kernels index with 32 bits


def check_resident(gpu: Gpu, blocks_per_sm: int) -> None:
    """Raises: InputError for more resident blocks than an SM of this GPU holds, or none."""
    if not 1 <= blocks_per_sm <= gpu.blocks_per_sm:
        raise InputError(
            f"blocks_per_sm={blocks_per_sm} must be 1..{gpu.blocks_per_sm} on {gpu.title}; "
            "tilewright explain tile says how many a tiling allows."
        )


def check_range(most: int = MOST, **sizes: int) -> None:
    """Raises: InputError for a size outside 1..most, by its name."""
    for name, size in sizes.items():
        if not 1 <= size <= most:
            raise InputError(f"{name}={size} must be 1..{most}.")
