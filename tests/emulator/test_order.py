"""Order among some of a launch's threads: nothing is found where it suffices, all where not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.emulator.report import Report

pytestmark = pytest.mark.usefixtures("compiler")

SOURCE = Path(__file__).parent / "corpus" / "order.cu"
ORDERS: list[dict[str, Any]] = [{}, *({"schedule": "random", "seed": seed} for seed in (1, 2, 3))]


def run(
    kernel: str, grid: int, block: int, args: list[Any], order: dict[str, Any], **without: int
) -> Report:
    defines = {"FENCE": 1, "SYNC": 1, **without}
    return tilewright.emulate(SOURCE, kernel, (grid,), (block,), args, defines=defines, **order)


def kinds(report: Report) -> set[str]:
    assert report.completed
    return {finding.kind for finding in report.findings}


def ints(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype="i4").reshape(shape)


@pytest.mark.parametrize("order", ORDERS)
def test_a_warp_that_takes_no_part_need_not_know(order: dict[str, Any]) -> None:
    x, out = ints(64).astype("f4"), np.zeros(160, "f4")
    assert kinds(run("reuse", 1, 96, [out, x, 3], order)) == set()
    assert out[0] == 63 * 3


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sync", [1, 0])
def test_teams_with_a_workspace_of_their_own(order: dict[str, Any], sync: int) -> None:
    args = [np.zeros(384, "i4"), np.zeros(384, "i4"), ints(640), 4]
    assert kinds(run("teams", 2, 192, args, order, SYNC=sync)) == (set() if sync else {"race"})


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("fence", [1, 0])
def test_a_cell_that_two_blocks_read(order: dict[str, Any], fence: int) -> None:
    args = [np.ones(32, "i4"), np.zeros(1, "i4"), np.zeros(64, "i4")]
    report = run("readers_of_two_blocks", 2, 32, args, order, FENCE=fence)
    assert kinds(report) == (set() if fence else {"race"})


@pytest.mark.parametrize("order", ORDERS)
def test_warps_that_read_a_cell_at_once_in_other_periods(order: dict[str, Any]) -> None:
    assert kinds(run("old_periods", 1, 128, [np.zeros(128, "i4"), ints(32)], order)) == set()


@pytest.mark.parametrize("order", ORDERS)
def test_the_padding_of_structs_is_copied(order: dict[str, Any]) -> None:
    x, out = np.random.default_rng(3).standard_normal(128), np.zeros(1, "i4")
    assert kinds(run("argmax", 1, 128, [out, x], order)) == set()
    assert out[0] == x.argmax()


def test_more_shuffles_than_a_record_has_room_for() -> None:
    assert kinds(run("many_shuffles", 1, 32, [np.zeros(32, "i4"), ints(32), 4200], {})) == set()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("fence", [1, 0])
def test_a_fence_behind_the_data(order: dict[str, Any], fence: int) -> None:
    args = [np.zeros(64, "i4"), np.zeros(1, "i4"), np.zeros(64, "i4")]
    report = run("publish", 2, 64, args, order, FENCE=fence)
    assert kinds(report) == (set() if fence else {"race"})


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("without", ["nothing", "FENCE", "SYNC"])
def test_the_last_block(order: dict[str, Any], without: str) -> None:
    args = [np.zeros(512, "f4"), np.zeros(1, "i4"), np.zeros(128, "f4")]
    report = run("last_block", 4, 128, args, order, **{without: 0})
    assert kinds(report) == (set() if without == "nothing" else {"race"})


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("without", ["nothing", "FENCE", "SYNC"])
def test_blocks_in_turns(order: dict[str, Any], without: str) -> None:
    args = [np.zeros(64, "f4"), ints(4, 64).astype("f4"), np.zeros(1, "i4")]
    report = run("in_turns", 4, 64, args, order, **{without: 0})
    assert kinds(report) == (set() if without == "nothing" else {"race"})


@pytest.mark.parametrize("order", ORDERS)
def test_a_stencil_in_place(order: dict[str, Any]) -> None:
    x, other = ints(256).astype("f4"), np.zeros(256, "f4")
    assert kinds(run("in_place", 4, 64, [x, x, 256], order)) == {"race"}
    assert kinds(run("in_place", 4, 64, [other, x, 256], order)) == set()
