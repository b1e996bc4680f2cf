"""Kinds of options that several `explain` commands have, and what they share in reading them."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from tilewright.cli.options import Whole
from tilewright.errors import InputError

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


def check_range(most: int = MOST, **sizes: int) -> None:
    """Raises: InputError for a size outside 1..most, by its name."""
    for name, size in sizes.items():
        if not 1 <= size <= most:
            raise InputError(f"{name}={size} must be 1..{most}.")
