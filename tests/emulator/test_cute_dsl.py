"""PTX of NVIDIA's CuTe DSL (corpus/cute_dsl/record.py): right results, no findings.

A tensor is a parameter of its own, a struct of its pointer and what of its shape is not constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright

Array = Any
FOLDER = Path(__file__).parent / "corpus" / "cute_dsl"
RANDOM = np.random.default_rng(29)


def normal(dtype: Any, *shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(dtype)


def run(
    name: str, grid: Sequence[int], block: int, args: list[Any], shared: int, order: dict[str, Any]
) -> None:
    report = tilewright.emulate(
        FOLDER / f"{name}.ptx", None, grid, (block,), args, shared_bytes=shared, **order
    )
    assert report.completed
    assert [(it.kind, it.line, it.message) for it in report.findings] == []


@pytest.fixture(params=[None, 1, 2])
def order(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {} if request.param is None else {"schedule": "random", "seed": request.param}


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "tile", "shared"),
    [
        ("gemm_f16", np.float16, (64, 128, 320), (64, 64), 49152),
        ("gemm_bf16", ml_dtypes.bfloat16, (96, 128, 192), (32, 64), 24576),
    ],
)
def test_gemm(
    name: str,
    dtype: Any,
    shape: tuple[int, int, int],
    tile: tuple[int, int],
    shared: int,
    order: dict[str, Any],
) -> None:
    m, n, k = shape
    a, b, c = normal(dtype, m, k), normal(dtype, n, k), np.full((m, n), np.nan, "f4")
    run(name, (n // tile[1], m // tile[0]), 128, [a, b, c], shared, order)
    exact, size = a.astype("f8") @ b.astype("f8").T, abs(a).astype("f8") @ abs(b).astype("f8").T
    assert (abs(c - exact) <= 2**-18 * size).all()


def test_shapes_that_are_not_constant(order: dict[str, Any]) -> None:
    """A tensor is a struct of its pointer and its extents: a tuple."""
    n = 1004
    a, b = normal("f4", n), normal("f4", n)
    c = np.full(n, np.nan, "f2")
    args = [(a, n // 4), (b, n // 4), (c, n // 4), 0.75]
    run("blend", (4,), 64, args, 0, order)
    expected = 0.75 * a.astype("f8") + b.astype("f8") ** 2
    np.testing.assert_allclose(c.astype("f8"), expected, rtol=2**-10, atol=2**-11)


def test_softmax(order: dict[str, Any]) -> None:
    x, out = normal("f4", 5, 201), np.full((5, 201), np.nan, "f4")
    run("softmax", (5,), 128, [x, out], 32, order)
    e = np.exp(x.astype("f8"))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)
