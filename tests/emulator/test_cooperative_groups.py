"""PTX of cooperative groups (corpus/nvcc/record.py): right results, no findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright

Array = Any
FOLDER = Path(__file__).parent / "corpus" / "nvcc"
RANDOM = np.random.default_rng(8)


def run(
    file: str, kernel: str, grid: int, block: int, args: list[Any], order: dict[str, Any]
) -> None:
    report = tilewright.emulate(FOLDER / file, kernel, (grid,), (block,), args, **order)
    assert report.completed
    assert [(it.kind, it.line, it.message) for it in report.findings] == []


@pytest.fixture(params=[None, 1, 2])
def order(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {} if request.param is None else {"schedule": "random", "seed": request.param}


def test_reduce(order: dict[str, Any]) -> None:
    x, out = RANDOM.standard_normal(1001).astype("f4"), np.full(3, np.nan, "f4")
    run("groups.ptx", "reduce", 3, 128, [out, x, 1001], order)
    padded = np.zeros(3 * 128 * 3)
    padded[:1001] = x
    np.testing.assert_allclose(out, padded.reshape(3, 3, 128).sum((0, 2)), rtol=1e-4, atol=1e-4)


def test_tiles_of_eight(order: dict[str, Any]) -> None:
    x = RANDOM.integers(-99, 99, 96, "i4")
    high, sums, turned = (np.full(96, -777, "i4") for _ in range(3))
    votes = np.full(96, 777, "u4")
    run("groups.ptx", "tiles", 1, 96, [high, sums, turned, votes, x], order)
    rows = x.reshape(12, 8)
    np.testing.assert_array_equal(high.reshape(12, 8), rows.max(1, keepdims=True).repeat(8, 1))
    np.testing.assert_array_equal(sums.reshape(12, 8), np.cumsum(rows, 1))
    np.testing.assert_array_equal(turned.reshape(12, 8), np.roll(rows, -3, 1))
    ballots = np.packbits(rows > 0, axis=1, bitorder="little")
    np.testing.assert_array_equal(votes.reshape(12, 8), ballots.repeat(8, 1))


def test_coalesced_and_labelled(order: dict[str, Any]) -> None:
    x = RANDOM.integers(0, 99, 64, "i4")
    sums, counts, groups = (np.full(64, -777, "i4") for _ in range(3))
    run("groups.ptx", "coalesced", 1, 64, [sums, counts, groups, x], order)
    for warp in range(2):
        mine = np.arange(32 * warp, 32 * warp + 32)
        odd, even = mine[x[mine] % 2 == 1], mine[x[mine] % 2 == 0]
        np.testing.assert_array_equal(sums[odd], x[odd].sum())
        np.testing.assert_array_equal(counts[odd], 100 * len(odd) + np.arange(len(odd)))
        np.testing.assert_array_equal(groups[odd], np.arange(len(odd)))
        labels = x[even] >> 1 & 3
        np.testing.assert_array_equal(groups[even], len(set(labels.tolist())))
        for label in set(labels.tolist()):
            alike = even[labels == label]
            np.testing.assert_array_equal(sums[alike], x[alike].sum())
            np.testing.assert_array_equal(counts[alike], 100 * len(alike) + np.arange(len(alike)))


@pytest.mark.parametrize("chip", ["", "_sm90"])
@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_memcpy_async(chip: str, tiles: int, order: dict[str, Any]) -> None:
    x, out = RANDOM.standard_normal((3, tiles, 256)).astype("f4"), np.full((3, 64), np.nan, "f4")
    run(f"memcpy_async{chip}.ptx", "sums", 3, 64, [out, x, tiles], order)
    np.testing.assert_allclose(out, sums_of_tiles(x), atol=1e-4)


def sums_of_tiles(x: Array) -> Array:
    places = (np.arange(64)[:, None] * 67 + np.arange(4) * 64) % 256
    return x.astype("f8")[:, :, places].sum((1, 3))


def test_the_whole_grid_meets(order: dict[str, Any]) -> None:
    x = RANDOM.standard_normal(64 * 5).astype("f4")
    shared, out = np.full_like(x, np.nan), np.full_like(x, np.nan)
    run("groups.ptx", "grid", 5, 64, [out, shared, x], order)
    np.testing.assert_array_equal(shared, np.roll(2 * x, -64))
    np.testing.assert_array_equal(out, shared + 1)


def test_a_grid_that_releases_nothing_races() -> None:
    text = (FOLDER / "groups.ptx").read_text(encoding="utf-8")
    assert text.count("atom.add.release.gpu.u32") == 2
    mutant = text.replace("atom.add.release.gpu.u32", "atom.add.relaxed.gpu.u32")
    x = RANDOM.standard_normal(64 * 5).astype("f4")
    args = [np.full_like(x, np.nan), np.full_like(x, np.nan), x]
    report = tilewright.emulate(mutant, "grid", (5,), (64,), args)
    assert "race" in {it.kind for it in report.findings}


def test_more_blocks_than_run_together_meet() -> None:
    """As many lanes run at once as a chunk has; the others' turn comes while these poll."""
    x = RANDOM.standard_normal(64 * 300).astype("f4")
    shared, out = np.full_like(x, np.nan), np.full_like(x, np.nan)
    run("groups.ptx", "grid", 300, 64, [out, shared, x], {})
    np.testing.assert_array_equal(shared, np.roll(2 * x, -64))
