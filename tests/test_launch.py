"""The launch record and the parameter struct that C sees."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tilewright.errors import InputError
from tilewright.launch import GEMM_ARGS, GRID_LIMITS, Launch, dim3, gemm_args


def launch(**changes: Any) -> Launch:
    fields: dict[str, Any] = {
        "artifact": None,
        "kernel": "gemm",
        "grid": (1, 1, 1),
        "block": (256, 1, 1),
        "params": (),
    }
    return Launch(**(fields | changes))


def test_gemm_args_is_the_struct_in_c() -> None:
    raw = gemm_args(0x7F00_0000_0000, 2, 3, 128, 256, 64)
    assert raw == struct.pack("<QQQiii4x", 0x7F00_0000_0000, 2, 3, 128, 256, 64)
    assert GEMM_ARGS.itemsize == len(raw) == 40


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"grid": (0, 1, 1)}, r"grid\.x=0 must be between 1 and 2147483647"),
        ({"grid": (1, 65536, 1)}, r"grid\.y=65536 must be between 1 and 65535"),
        ({"grid": (1, 1, 65536)}, r"grid\.z=65536 must be between 1 and 65535"),
        ({"block": (2048, 1, 1)}, r"block\.x=2048 must be between 1 and 1024"),
        ({"block": (1, 1, 65)}, r"block\.z=65 must be between 1 and 64"),
        ({"block": (32, 33, 1)}, r"has 1056 threads; CUDA allows 1024"),
    ],
)
def test_limits(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        launch(**changes)


def test_the_largest_grid_is_accepted() -> None:
    assert launch(grid=(2**31 - 1, 65535, 65535)).grid[0] == 2**31 - 1


def test_dim3_fills_up() -> None:
    assert dim3("grid", (8,), GRID_LIMITS) == (8, 1, 1)
    assert dim3("grid", [8, 2], GRID_LIMITS) == (8, 2, 1)
    for extents in ((), (1, 2, 3, 4)):
        with pytest.raises(InputError, match="must have 1 to 3 extents"):
            dim3("grid", extents, GRID_LIMITS)
