"""Every combination of <mma.h>, as NVRTC compiles it, against float64 (integers: exactly)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright

SOURCE = Path(__file__).parent / "corpus" / "wmma.cu"
SHAPES = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
# In memory, as a fragment's type, what it sums in; their NumPy types; the relative error of a sum.
TYPES: dict[str, tuple[str, str, str, Any, Any, float]] = {
    "half": ("__half", "__half", "float", np.float16, np.float32, 2.0**-20),
    "half_half": ("__half", "__half", "__half", np.float16, np.float16, 2.0**-9),
    "bf16": ("__nv_bfloat16", "__nv_bfloat16", "float", ml_dtypes.bfloat16, np.float32, 2.0**-20),
    "tf32": ("float", "wmma::precision::tf32", "float", np.float32, np.float32, 2.0**-20),
    "s8": ("signed char", "signed char", "int", np.int8, np.int32, 0.0),
    "u8": ("unsigned char", "unsigned char", "int", np.uint8, np.int32, 0.0),
    "f64": ("double", "double", "double", np.float64, np.float64, 2.0**-50),
}
CASES = [
    *product(("half", "half_half", "bf16", "s8", "u8"), SHAPES),
    ("tf32", (16, 16, 8)),
    ("f64", (8, 8, 4)),
]

pytestmark = pytest.mark.usefixtures("compiler")


def values(rng: np.random.Generator, dtype: Any, *shape: int) -> Any:
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    made = rng.standard_normal(shape).astype(dtype)
    if dtype == np.float32:  # what a tf32 holds
        made = (made.view(np.uint32) & np.uint32(0xFFFF_E000)).view(np.float32)
    return made


def stored(matrix: Any, order: str, extra: int) -> tuple[Any, int]:
    """Memory with `extra` elements behind each row or column, and the leading stride."""
    lines = matrix if order == "r" else matrix.T
    memory = np.zeros((lines.shape[0], lines.shape[1] + extra), lines.dtype)
    memory[:, : lines.shape[1]] = lines
    return memory, memory.shape[1]


@pytest.mark.parametrize(("kind", "tile"), CASES, ids=lambda it: str(it).replace(" ", ""))
def test_products(kind: str, tile: tuple[int, int, int]) -> None:
    element, fragment, total, dtype, sums, error = TYPES[kind]
    defines = {"ELEMENT": element, "KIND": fragment, "SUM": total}
    defines |= {name: str(extent) for name, extent in zip(("TM", "TN", "TK"), tile, strict=True)}
    m, n, k = tile[0] * 2, tile[1] * 3, tile[2] * 5
    rng = np.random.default_rng(m * n)
    a, b, c = values(rng, dtype, m, k), values(rng, dtype, k, n), values(rng, sums, m, n)
    if sums == np.int32:
        c //= 1000  # the sums stay in 32 bits
    wide = np.int64 if sums == np.int32 else np.float64
    exact = a.astype(wide) @ b.astype(wide) + 2 * c.astype(wide)
    size = abs(a.astype(wide)) @ abs(b.astype(wide)) + 2 * abs(c.astype(wide))
    for orders in product("rc", repeat=3):
        held = [stored(it, order, 16) for it, order in zip((a, b, c), orders, strict=True)]
        arrays, strides = [array for array, _ in held], [stride for _, stride in held]
        report = tilewright.emulate(
            SOURCE, "".join(orders), (3, 2), (32,), [*arrays, *strides, k], defines=defines
        )
        assert report.clean, report.findings
        found = arrays[2] if orders[2] == "r" else arrays[2].T
        inside = found[:m, :n].astype(wide)
        assert (abs(inside - exact) <= error * size).all(), orders
        assert not found[m:].any()
        assert not found[:, n:].any()
