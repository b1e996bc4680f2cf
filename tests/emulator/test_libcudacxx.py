"""PTX of libcu++ (corpus/nvcc/record.py): barriers, pipelines and atomics without findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright

Array = Any
FOLDER = Path(__file__).parent / "corpus" / "nvcc"
RANDOM = np.random.default_rng(21)


def run(
    file: str, kernel: str, grid: int, block: int, args: list[Any], order: dict[str, Any]
) -> None:
    report = tilewright.emulate(FOLDER / file, kernel, (grid,), (block,), args, **order)
    assert [(it.kind, it.line, it.message) for it in report.findings] == []
    assert report.completed


@pytest.fixture(params=[None, 1, 2])
def order(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {} if request.param is None else {"schedule": "random", "seed": request.param}


chips = pytest.mark.parametrize("chip", ["", "_sm90"])


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype("f4")


@chips
@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_producers_and_consumers(chip: str, tiles: int, order: dict[str, Any]) -> None:
    x, out = normal(3, tiles, 64), np.full((3, 64), np.nan, "f4")
    run(f"barrier{chip}.ptx", "roles", 3, 128, [out, x, tiles], order)
    np.testing.assert_allclose(out, x.astype("f8")[:, :, ::-1].sum(1), atol=1e-5)


def rows_of_tiles(x: Array) -> Array:
    places = (np.arange(64)[:, None] * 67 + np.arange(4) * 64) % 256
    return x.astype("f8")[:, :, places].sum((1, 3))


@chips
@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_copies_that_a_barrier_waits_for(tiles: int, chip: str, order: dict[str, Any]) -> None:
    """For sm_90 libcu++ makes one cp.async.bulk of them."""
    x, out = normal(3, tiles, 256), np.full((3, 64), np.nan, "f4")
    run(f"barrier{chip}.ptx", "copies", 3, 64, [out, x, tiles], order)
    np.testing.assert_allclose(out, rows_of_tiles(x), atol=1e-4)


@chips
def test_phases(chip: str, order: dict[str, Any]) -> None:
    x, out = RANDOM.integers(-9, 9, 64, "i4"), np.full(96, -777, "i4")
    run(f"barrier{chip}.ptx", "phases", 1, 64, [out, x], order)
    value = x.copy()
    for _ in range(3):
        value = value + np.roll(value, -1)
    np.testing.assert_array_equal(out[:64], value)
    np.testing.assert_array_equal(out[64:], 2 * value[:32][::-1])


@chips
@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_pipeline_of_a_thread(chip: str, tiles: int, order: dict[str, Any]) -> None:
    x, out = normal(3, tiles, 64, 4), np.full((3, 64), np.nan, "f4")
    run(f"pipeline{chip}.ptx", "own", 3, 64, [out, x, tiles], order)
    np.testing.assert_allclose(out, (x.astype("f8") * [1, 2, 3, 4]).sum((1, 3)), atol=1e-4)


@chips
@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_pipeline_of_a_block(chip: str, tiles: int, order: dict[str, Any]) -> None:
    x, out = normal(3, tiles, 128), np.full((3, 96), np.nan, "f4")
    run(f"pipeline{chip}.ptx", "shared", 3, 128, [out, x, tiles], order)
    me, wide = np.arange(96), x.astype("f8")
    expected = (wide[:, :, me * 5 % 128] - wide[:, :, 127 - me]).sum(1)
    np.testing.assert_allclose(out, expected, atol=1e-4)


def test_atomics(order: dict[str, Any]) -> None:
    x = RANDOM.integers(1, 999, 300, "i4")
    count, high = np.zeros(1, "i4"), np.zeros(1, "u8")
    low, total = np.full(1, np.inf, "f4"), np.zeros(1)
    run("atomics.ptx", "update", 3, 128, [count, high, low, total, x, 300], order)
    assert (count[0], high[0], low[0]) == (x.sum(), int(x.max()) << 33, x.min())
    assert total[0] == x.sum()


def test_flag_between_blocks(order: dict[str, Any]) -> None:
    x, data, flag = normal(64), np.full(64, np.nan, "f4"), np.zeros(1, "i4")
    out = np.full((3, 64), np.nan, "f4")
    run("atomics.ptx", "publish", 3, 64, [out, data, flag, x], order)
    np.testing.assert_array_equal(out, [x, 2 * x + np.float32(1), 2 * x + np.float32(2)])


def test_last_block_sums(order: dict[str, Any]) -> None:
    x, parts = normal(5, 64), np.full((5, 64), np.nan, "f4")
    arrived, out = np.zeros(1, "u4"), np.full(64, np.nan, "f4")
    run("atomics.ptx", "last_block", 5, 64, [out, parts, arrived, x], order)
    np.testing.assert_allclose(out, 3 * x.astype("f8").sum(0), rtol=1e-4, atol=1e-5)


def test_latch_and_semaphore(order: dict[str, Any]) -> None:
    x, out = RANDOM.integers(-9, 9, 64, "i4"), np.full(64, -777, "i4")
    run("atomics.ptx", "latch", 1, 64, [out, x], order)
    np.testing.assert_array_equal(out, (x * x)[::-1] + x[5::32].sum())


def test_a_function_at_the_end_of_each_phase(order: dict[str, Any]) -> None:
    out = np.full(64, -1, "i4")
    run("barrier_more.ptx", "completion", 1, 64, [out], order)
    np.testing.assert_array_equal(out, 3)


def test_a_barrier_of_all_blocks(order: dict[str, Any]) -> None:
    x, shared, out = normal(192), np.full(192, np.nan, "f4"), np.full(192, np.nan, "f4")
    meeting = np.zeros(64, "u1")
    run("barrier_more.ptx", "make", 1, 1, [meeting, 192], order)
    run("barrier_more.ptx", "blocks", 3, 64, [out, shared, meeting, x], order)
    np.testing.assert_array_equal(out, np.roll(x, -64))


def test_cache_policies(order: dict[str, Any]) -> None:
    x, out = normal(60), np.full(60, np.nan, "f4")
    run("barrier_more.ptx", "policies", 1, 64, [out, x, 60], order)
    np.testing.assert_array_equal(out, 2 * x)
