"""PTX of CUTLASS 2 and of CuTe in C++ (corpus/nvcc/record.py): right results, no findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright

Array = Any
FOLDER = Path(__file__).parent / "corpus" / "nvcc"
RANDOM = np.random.default_rng(11)
ORDERS: list[dict[str, Any]] = [{}, {"schedule": "random", "seed": 5}]


def normal(dtype: Any, *shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(dtype)


def run(text: Path | str, grid: tuple[int, int], block: int, args: list[Any], **how: Any) -> None:
    report = tilewright.emulate(text, "gemm", grid, (block,), args, **how)
    assert report.completed
    assert [(it.kind, it.line, it.message) for it in report.findings] == []


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("name", "dtype", "tile", "shape", "bound"),
    [
        ("cute_fp16", np.float16, (64, 64), (64, 128, 320), 2**-18),
        ("cute_bf16", ml_dtypes.bfloat16, (32, 64), (96, 128, 192), 2**-18),
        ("cute_tf32", np.float32, (64, 32), (128, 96, 160), 2**-9),
    ],
)
def test_cute_tensor_cores(
    name: str,
    dtype: Any,
    tile: tuple[int, int],
    shape: tuple[int, int, int],
    bound: float,
    order: dict[str, Any],
) -> None:
    m, n, k = shape
    a, b, c = normal(dtype, m, k), normal(dtype, n, k), np.full((m, n), np.nan, "f4")
    grid = (n // tile[1], m // tile[0])
    run(FOLDER / f"{name}.ptx", grid, 128, [c, a, b, m, n, k], **order)
    exact, size = a.astype("f8") @ b.astype("f8").T, abs(a).astype("f8") @ abs(b).astype("f8").T
    assert (abs(c - exact) <= bound * size).all()


@pytest.mark.parametrize("order", ORDERS)
def test_cute_int8(order: dict[str, Any]) -> None:
    m, n, k = 128, 64, 384
    a, b = (RANDOM.integers(-128, 128, (rows, k), "i1") for rows in (m, n))
    c = np.full((m, n), -1, "i4")
    args = [c, a, b, m, n, k]
    run(FOLDER / "cute_int8.ptx", (n // 64, m // 64), 128, args, **order)
    np.testing.assert_array_equal(c, a.astype("i4") @ b.astype("i4").T)


@pytest.mark.parametrize("order", ORDERS)
def test_cute_on_cuda_cores(order: dict[str, Any]) -> None:
    m, n, k = 64, 128, 40
    a, b, c = normal("f4", m, k), normal("f4", n, k), np.full((m, n), np.nan, "f4")
    args = [c, a, b, m, n, k]
    run(FOLDER / "cute_sgemm.ptx", (n // 64, m // 64), 256, args, **order)
    np.testing.assert_allclose(c, a.astype("f8") @ b.astype("f8").T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", ORDERS)
def test_cutlass_multistage_with_epilogue(order: dict[str, Any]) -> None:
    m, n, k = 64, 128, 136  # k does not fill its tiles
    a, b, c = normal("f2", m, k), normal("f2", k, n), normal("f2", m, n)
    d = np.full((m, n), np.nan, "f2")
    args = [d, a, b, c, m, n, k, np.float32(0.5), np.float32(-2)]
    run(FOLDER / "cutlass_gemm.ptx", (1, 2), 128, args, shared_bytes=24576, **order)
    exact = 0.5 * (a.astype("f8") @ b.astype("f8")) - 2 * c.astype("f8")
    size = 0.5 * (abs(a).astype("f8") @ abs(b).astype("f8")) + 2 * abs(c.astype("f8"))
    assert (abs(d.astype("f8") - exact) <= 2**-10 * size).all()


@pytest.mark.parametrize("order", ORDERS)
def test_cutlass_on_cuda_cores(order: dict[str, Any]) -> None:
    m, n, k = 40, 96, 21
    a, b, d = normal("f4", k, m), normal("f4", k, n), np.full((m, n), np.nan, "f4")
    args = [d, a, b, m, n, k]
    run(FOLDER / "cutlass_simt.ptx", (2, 2), 64, args, shared_bytes=8192, **order)
    np.testing.assert_allclose(d, a.astype("f8").T @ b.astype("f8"), rtol=1e-4, atol=1e-4)


def test_cutlass_leaves_what_lies_outside_unset() -> None:
    """Its main loop copies only what lies inside the matrices, and multiplies whole tiles.

    So it reads shared memory that nobody wrote, in rows and columns that it does not store.
    """
    m, n, k = 104, 80, 136
    a, b, d = normal("f2", m, k), normal("f2", k, n), np.full((m, n), np.nan, "f2")
    args = [d, a, b, d, m, n, k, np.float32(1), np.float32(0)]
    file = FOLDER / "cutlass_gemm.ptx"
    report = tilewright.emulate(file, "gemm", (2, 2), (128,), args, shared_bytes=24576)
    assert {(it.kind, it.message.split(".")[0]) for it in report.findings} == {
        ("uninitialised", "ldmatrix")
    }
    size = abs(a).astype("f8") @ abs(b).astype("f8")
    assert (abs(d.astype("f8") - a.astype("f8") @ b.astype("f8")) <= 2**-10 * size).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("name", "columns", "out", "bound"),
    [("cutlass_volta", False, "f4", 2**-18), ("cutlass_turing", True, "f2", 2**-8)],
)
def test_cutlass_on_older_tensor_cores(
    name: str, columns: bool, out: str, bound: float, order: dict[str, Any]
) -> None:
    m, n, k = 64, 128, 96
    a, b, d = normal("f2", m, k), normal("f2", k, n), np.full((m, n), np.nan, out)
    given = np.ascontiguousarray(a.T) if columns else a
    args = [d, given, b, m, n, k]
    run(FOLDER / f"{name}.ptx", (1, 2), 128, args, shared_bytes=32768, **order)
    exact, size = a.astype("f8") @ b.astype("f8"), abs(a).astype("f8") @ abs(b).astype("f8")
    assert (abs(d.astype("f8") - exact) <= bound * size).all()


@pytest.mark.parametrize("order", ORDERS)
def test_cutlass_int8(order: dict[str, Any]) -> None:
    m, n, k = 64, 128, 192
    a, b = (RANDOM.integers(-128, 128, (rows, k), "i1") for rows in (m, n))
    d = np.full((m, n), -1, "i4")
    args = [d, a, b, m, n, k]
    run(FOLDER / "cutlass_int8.ptx", (1, 2), 128, args, shared_bytes=32768, **order)
    np.testing.assert_array_equal(d, a.astype("i4") @ b.astype("i4").T)
