"""PTX of CUB (corpus/nvcc/record.py): right results, no findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright

Array = Any
FOLDER = Path(__file__).parent / "corpus" / "nvcc"
RANDOM = np.random.default_rng(3)


def run(
    file: str, kernel: str, grid: int, block: int, args: list[Any], order: dict[str, Any]
) -> None:
    report = tilewright.emulate(FOLDER / file, kernel, (grid,), (block,), args, **order)
    assert report.completed
    assert [(it.kind, it.line, it.message) for it in report.findings] == []


@pytest.fixture(params=[None, 1, 2])
def order(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {} if request.param is None else {"schedule": "random", "seed": request.param}


def test_block_reduce(order: dict[str, Any]) -> None:
    x, out = RANDOM.standard_normal(300).astype("f4"), np.full((3, 3), np.nan, "f4")
    run("cub_block.ptx", "reduce", 3, 128, [out, x, 300], order)
    padded = np.zeros((3, 128))
    padded.reshape(-1)[:300] = x
    for column, expected in enumerate((padded.sum(1), padded.max(1), padded.sum(1))):
        np.testing.assert_allclose(out[:, column], expected, rtol=1e-4, atol=1e-4)


def test_block_scan(order: dict[str, Any]) -> None:
    x = RANDOM.integers(-99, 99, (3, 512), "i4")
    after, before = np.full_like(x, -1), np.full_like(x, -1)
    run("cub_block.ptx", "scan", 3, 128, [after, before, x], order)
    np.testing.assert_array_equal(after, np.cumsum(x, 1))
    np.testing.assert_array_equal(before, np.cumsum(x, 1) - x)


def test_block_radix_sort(order: dict[str, Any]) -> None:
    keys, values = RANDOM.integers(-40, 40, 512, "i4"), np.arange(512, dtype="i4")
    expected = np.argsort(keys, kind="stable")
    in_order = keys[expected]
    run("cub_block.ptx", "sort", 1, 128, [keys, values], order)
    np.testing.assert_array_equal(keys, in_order)
    np.testing.assert_array_equal(values, expected)


def test_block_exchange(order: dict[str, Any]) -> None:
    x, to = RANDOM.standard_normal(512).astype("f4"), RANDOM.permutation(512).astype("i4")
    striped, scattered = np.full(512, np.nan, "f4"), np.full(512, np.nan, "f4")
    run("cub_block.ptx", "exchange", 1, 128, [striped, scattered, x, to], order)
    np.testing.assert_array_equal(striped, x)
    np.testing.assert_array_equal(scattered[to], x)


def test_block_histogram(order: dict[str, Any]) -> None:
    x = RANDOM.integers(0, 32, 512, "u1")
    sorted_, counted = np.full(32, 99, "u4"), np.full(32, 99, "u4")
    run("cub_block.ptx", "histogram", 1, 128, [sorted_, counted, x], order)
    np.testing.assert_array_equal(sorted_, np.bincount(x, minlength=32))
    np.testing.assert_array_equal(counted, np.bincount(x, minlength=32))


def test_warp_reduce(order: dict[str, Any]) -> None:
    x, out = RANDOM.integers(-99, 99, 64, "i4"), np.full(12, -1, "i4")
    run("cub_warp.ptx", "reduce", 1, 64, [out, x], order)
    sevens = x.reshape(2, 32)[:, :7].sum(1)
    expected = [x.reshape(2, 32).sum(1), x.reshape(8, 8).sum(1), sevens]
    np.testing.assert_array_equal(out, np.concatenate(expected))


def test_warp_scan(order: dict[str, Any]) -> None:
    x = RANDOM.standard_normal(64).astype("f4")
    sums, maxima = np.full(64, np.nan, "f4"), np.full(64, np.nan)
    run("cub_warp.ptx", "scan", 1, 64, [sums, maxima, x], order)
    rows = x.reshape(2, 32).astype("f8")
    np.testing.assert_allclose(sums.reshape(2, 32), np.cumsum(rows, 1), atol=1e-4)
    high = np.maximum.accumulate(rows, 1)
    np.testing.assert_array_equal(maxima.reshape(2, 32)[:, 1:], high[:, :-1])
    assert (maxima.reshape(2, 32)[:, 0] == -1e300).all()


def test_warp_merge_sort(order: dict[str, Any]) -> None:
    keys = RANDOM.integers(-999, 999, 256, "i4")
    expected = -np.sort(-keys.reshape(4, 64), 1)
    run("cub_warp.ptx", "sort", 1, 64, [keys], order)
    np.testing.assert_array_equal(keys.reshape(4, 64), expected)


@pytest.mark.parametrize(("kind", "dtype"), [("int", "i4"), ("double", "f8")])
def test_decoupled_look_back(kind: str, dtype: str, order: dict[str, Any]) -> None:
    """Blocks wait for the sums of those before them, that another block tells by a flag."""
    n, tiles = 1000, 6
    x = RANDOM.integers(-99, 99, n).astype(dtype)
    out, states = np.full(n, -1, dtype), np.zeros(4096, "u1")
    run("cub_scan.ptx", f"initialise_{kind}", 1, 64, [states, tiles], order)
    run("cub_scan.ptx", f"scan_{kind}", tiles, 64, [out, x, states, tiles, n], order)
    np.testing.assert_array_equal(out, np.cumsum(x))


def test_radix_ranks(order: dict[str, Any]) -> None:
    x = RANDOM.integers(0, 2**32, 512, "u4")
    by_atomics, by_votes = np.full(512, -1, "i4"), np.full(512, -1, "i4")
    run("cub_rank.ptx", "rank", 1, 128, [by_atomics, by_votes, x], order)
    for ranks, digits in ((by_atomics, x & 255), (by_votes, x >> 3 & 31)):
        np.testing.assert_array_equal(np.argsort(ranks), np.argsort(digits, kind="stable"))
