"""PTX of TileLang's kernels (corpus/tilelang/record.py): right results, no findings.

Shapes are part of the kernels, and do not fill the tiles where TileLang allows that.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import erf
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright

Array = Any
FOLDER = Path(__file__).parent / "corpus" / "tilelang"
RANDOM = np.random.default_rng(17)


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
    ("name", "shape", "types", "transposed", "tile", "shared", "bound"),
    [
        ("matmul_f16", (150, 112, 208), ("f2", "f2"), False, (64, 64), 24576, 2**-10),
        ("matmul_bf16", (96, 80, 136), (ml_dtypes.bfloat16, "f4"), True, (32, 64), 24576, 2**-18),
        ("matmul_tf32", (128, 96, 160), ("f4", "f4"), True, (64, 32), 24576, 2**-9),
    ],
)
def test_matmul(
    name: str,
    shape: tuple[int, int, int],
    types: tuple[Any, Any],
    transposed: bool,
    tile: tuple[int, int],
    shared: int,
    bound: float,
    order: dict[str, Any],
) -> None:
    m, n, k = shape
    a, b = normal(types[0], m, k), normal(types[0], k, n)
    c = np.full((m, n), np.nan, types[1])
    given = np.ascontiguousarray(b.T) if transposed else b
    run(name, (-(-n // tile[1]), -(-m // tile[0])), 128, [a, given, c], shared, order)
    exact, size = a.astype("f8") @ b.astype("f8"), abs(a).astype("f8") @ abs(b).astype("f8")
    assert (abs(c.astype("f8") - exact) <= bound * size).all()


def test_matmul_int8(order: dict[str, Any]) -> None:
    m, n, k = 64, 128, 192
    a, b = RANDOM.integers(-128, 128, (m, k), "i1"), RANDOM.integers(-128, 128, (n, k), "i1")
    c = np.full((m, n), -1, "i4")
    run("matmul_int8", (2, 1), 128, [a, b, c], 16384, order)
    np.testing.assert_array_equal(c, a.astype("i4") @ b.astype("i4").T)


def test_attention(order: dict[str, Any]) -> None:
    length, d = 112, 64
    q, k, v = (normal("f2", length, d) for _ in range(3))
    out = np.full((length, d), np.nan, "f4")
    run("attention", (2,), 128, [k, out, q, v], 24576, order)
    scores = q.astype("f8") @ k.astype("f8").T * 0.125
    weights = np.exp(scores - scores.max(1, keepdims=True))
    exact = weights / weights.sum(1, keepdims=True) @ v.astype("f8")
    np.testing.assert_allclose(out, exact, atol=5e-3)


def test_layer_norm_and_gelu(order: dict[str, Any]) -> None:
    x, out = normal("f4", 5, 384), np.full((5, 384), np.nan, "f4")
    run("layer_norm", (5,), 64, [x, out], 256, order)
    wide = x.astype("f8")
    wide = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    expected = 0.5 * wide * (1 + np.vectorize(erf)(wide / np.sqrt(2)))
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_scan(order: dict[str, Any]) -> None:
    x, out = normal("f4", 40, 128), np.full((40, 128), np.nan, "f4")
    run("scan", (3,), 64, [x, out], 8192, order)
    np.testing.assert_allclose(out, np.cumsum(x.astype("f8"), 1), atol=1e-4)
