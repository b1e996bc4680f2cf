"""Kernels as people write them: right results, and nothing found in any order of the warps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright

CORPUS = Path(__file__).parent / "corpus"
SEEDS = (None, 1, 2, 3, 4, 5)  # None is lockstep

pytestmark = pytest.mark.usefixtures("compiler")
Floats = np.ndarray[Any, np.dtype[Any]]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def normal(*shape: int, dtype: Any = "f4") -> Floats:
    return rng().standard_normal(shape).astype(dtype)


def unset(*shape: int, dtype: Any = "f4") -> Floats:
    return np.full(shape, np.nan, dtype)


def clean(
    file: str,
    kernel: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    expect: Mapping[int, Any],
    rtol: float = 1e-5,
    atol: float = 1e-5,
    **how: Any,
) -> None:
    """Runs in lockstep and under random schedules; `expect` holds arguments by position."""
    for seed in SEEDS:
        given = [each.copy() if isinstance(each, np.ndarray) else each for each in args]
        order = {} if seed is None else {"schedule": "random", "seed": seed}
        report = tilewright.emulate(CORPUS / file, kernel, grid, block, given, **order, **how)
        assert [(it.kind, it.line, it.message) for it in report.findings] == [], f"seed {seed}"
        assert report.completed
        for place, value in expect.items():
            found = given[place]
            if callable(value):
                found, value = value(found)
            got = np.asarray(found)
            want = np.asarray(value).reshape(got.shape)
            if got.dtype.kind in "iu":
                np.testing.assert_array_equal(got, want, f"seed {seed}")
            else:
                np.testing.assert_allclose(
                    got.astype("f8"), want.astype("f8"), rtol, atol, err_msg=f"seed {seed}"
                )


# --- Sums and prefix sums ---------------------------------------------------------------


@pytest.mark.parametrize("threads", [128, 256])
def test_sum_in_a_tree(threads: int) -> None:
    x = normal(1001)
    mine = np.arange(x.size) // threads % 3
    want = [x[mine == block].sum(dtype="f8") for block in range(3)]
    clean("reduce.cu", f"reduce::tree<{threads}>", (3,), (threads,), [unset(3), x, 1001], {0: want})


def test_sum_by_shuffles_and_atomics() -> None:
    x = normal(2020)
    clean(
        "reduce.cu", "sum_shuffle", (3,), (96,), [np.zeros(1, "f4"), x, 505], {0: x.sum()}, 1e-4
    )


def test_sum_with_volatile_shared_memory() -> None:
    x = normal(777)
    want = [x[at : at + 256].sum() for at in range(0, 777, 256)]
    args = [unset(4), x, 777]
    clean("reduce.cu", "sum_volatile", (4,), (128,), args, {0: want}, shared_bytes=512)


def test_sum_by_the_last_block() -> None:
    x = normal(999)
    args = [unset(1), unset(5), x, 999]
    clean("reduce.cu", "sum_last_block", (5,), (96,), args, {0: x.sum(dtype="f8")}, atol=1e-4)


def test_minimum_and_maximum_by_redux() -> None:
    x = rng().integers(-(10**6), 10**6, 333, "i4")
    args = [np.full(1, 2**31 - 1, "i4"), np.full(1, -(2**31), "i4"), x, 333]
    clean("reduce.cu", "minmax_redux", (3,), (128,), args, {0: x.min(), 1: x.max()})


def test_dot_product_in_double() -> None:
    a, b = np.abs(normal(129, dtype="f8")), np.abs(normal(129, dtype="f8")) + 1
    dot = a @ b
    want = np.sqrt(dot) / (1 + np.exp(-dot))
    clean("reduce.cu", "dot_double", (1,), (64,), [unset(1, dtype="f8"), a, b, 129], {0: want})


@pytest.mark.parametrize(("kind", "size"), [("int", 256), ("float", 128)])
def test_inclusive_scan(kind: str, size: int) -> None:
    n = size - 27
    x = rng().integers(-9, 9, n).astype("i4" if kind == "int" else "f4")
    out = np.zeros(n, "i4") if kind == "int" else unset(n)
    clean("scan.cu", f"hillis_steele<{kind}, {size}>", (1,), (size,), [out, x, n], {0: x.cumsum()})


def test_exclusive_scan() -> None:
    x = rng().integers(-99, 99, 199, "i4")
    args = [np.zeros(199, "i4"), x, 199]
    want = x.cumsum() - x
    clean("scan.cu", "blelloch", (1,), (128,), args, {0: want}, shared_bytes=264 * 4)


def test_scan_of_blocks_in_a_chain() -> None:
    x = rng().integers(-99, 99, 601, "i4")
    args = [np.zeros(601, "i4"), x, 601, *(np.zeros(n, "i4") for n in (1, 5, 5))]
    clean("scan.cu", "chained", (5,), (128,), args, {0: x.cumsum()})


# --- Rearranging ------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "dtype"), [("float", "f4"), ("double", "f8"), ("unsigned short", "u2")])
def test_transpose(kind: str, dtype: str) -> None:
    x = rng().integers(0, 999, (45, 71)).astype(dtype)
    out = np.zeros((71, 45), dtype) if dtype == "u2" else unset(71, 45, dtype=dtype)
    clean("rearrange.cu", f"transpose<{kind}>", (3, 2), (32, 8), [out, x, 45, 71], {0: x.T})


def test_histogram() -> None:
    data = (rng().standard_normal(3001) * 20 + 100).astype("u1")
    args = [np.zeros(256, "u4"), data, 3001]
    clean("rearrange.cu", "histogram", (3,), (160,), args, {0: np.bincount(data, minlength=256)})


def test_bitonic_sort() -> None:
    x = normal(500)
    args = [x, np.zeros(500, "i4"), 500]
    clean("rearrange.cu", "bitonic", (1,), (256,), args, {0: np.sort(x), 1: np.argsort(x)})


def test_radix_count() -> None:
    keys = rng().integers(0, 2**32, 1200, "u4")
    digits = keys >> 8 & 15
    want = [[(digits[b : b + 512] == d).sum() for b in (0, 512, 1024)] for d in range(16)]
    args = [np.full((16, 3), -1, "i4"), keys, 1200, 8]
    clean("rearrange.cu", "radix_count", (3,), (128,), args, {0: want})


def test_compaction() -> None:
    x = normal(455)
    kept = np.sort(x[x > 0])
    args = [np.zeros(455, "f4"), np.zeros(1, "i4"), x, 455]
    clean(
        "rearrange.cu",
        "compact",
        (4,),
        (128,),
        args,
        {0: lambda out: (np.sort(out[: kept.size]), kept), 1: kept.size},
    )


def test_top_k_of_a_warp() -> None:
    x = normal(7, 83)
    where = np.argsort(-x, 1, kind="stable")[:, :5]
    args = [unset(7, 5), np.zeros((7, 5), "i4"), x, 7, 83]
    expect = {0: np.take_along_axis(x, where, 1), 1: where}
    clean("rearrange.cu", "top_k<5>", (2,), (128,), args, expect)
