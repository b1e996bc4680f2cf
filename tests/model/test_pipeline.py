"""Timelines: the roadmap's two, and what must hold of every one."""

from __future__ import annotations

import random

import pytest

from tilewright.errors import InputError
from tilewright.model.pipeline import Timeline, timeline


def test_the_roadmaps_single_buffer() -> None:
    line = timeline(1, 3, 5, 3)
    assert line.steps() == ["Load 0", "Compute 0", "Load 1", "Compute 1", "Load 2", "Compute 2"]
    assert [(span.start, span.end) for span in line.spans] == [
        (0, 3), (3, 8), (8, 11), (11, 16), (16, 19), (19, 24)
    ]  # fmt: skip
    assert (line.total, line.overlap, line.fill, line.stalls) == (24, 0, 3, 6)


def test_the_roadmaps_double_buffer() -> None:
    line = timeline(2, 3, 5, 4)
    assert line.steps() == [
        "Preload 0", "Compute 0 + Load 1", "Compute 1 + Load 2", "Compute 2 + Load 3", "Compute 3"
    ]  # fmt: skip
    assert (line.total, line.overlap, line.fill, line.stalls) == (23, 9, 3, 0)


@pytest.mark.parametrize(("load", "compute"), [(3, 5), (5, 3), (4, 4), (0, 1), (1, 0)])
@pytest.mark.parametrize("tiles", [1, 2, 7])
def test_closed_forms(load: float, compute: float, tiles: int) -> None:
    """Loads that share nothing: a third buffer adds nothing to the second."""
    assert timeline(1, load, compute, tiles).total == tiles * (load + compute)
    double = load + (tiles - 1) * max(load, compute) + compute
    for stages in (2, 3, 8):
        assert timeline(stages, load, compute, tiles).total == double


def test_latency_is_what_more_buffers_hide() -> None:
    """600 of latency and 100 of transfer against 200 of work: 4 buffers hide what 2 cannot."""
    totals = [timeline(n, 700, 200, 100, transfer=100).total for n in (1, 2, 3, 4, 5)]
    assert totals[0] == 90_000
    assert totals[1] == pytest.approx(50 * 900, rel=0.03)
    assert totals[2] == pytest.approx(100 * 900 / 3, rel=0.03)
    assert totals[3] == pytest.approx(100 * 900 / 4, rel=0.03)
    assert totals[4] == 700 + 100 * 200


def check(line: Timeline, load: float, compute: float, transfer: float) -> None:
    loads, computes = line.loads, line.computes
    for tile, (loaded, computed) in enumerate(zip(loads, computes, strict=True)):
        assert loaded.end - loaded.start == pytest.approx(load)
        assert computed.end - computed.start == pytest.approx(compute)
        assert computed.start >= loaded.end
        if tile:
            assert computed.start >= computes[tile - 1].end
            assert loaded.start >= loads[tile - 1].start + transfer - 1e-9
        if tile >= line.stages:
            assert loaded.start >= computes[tile - line.stages].end


def test_every_timeline_keeps_its_rules() -> None:
    draw = random.Random(11)
    for _ in range(200):
        load, compute = draw.uniform(0, 9), draw.uniform(0.1, 9)
        transfer = draw.uniform(0, load)
        stages, tiles = draw.randint(1, 6), draw.randint(1, 12)
        line = timeline(stages, load, compute, tiles, transfer)
        check(line, load, compute, transfer)
        assert line.total == pytest.approx(line.fill + line.stalls + line.computing)
        ticks = 4000
        both = sum(
            any(s.start <= t < s.end for s in line.loads)
            and any(s.start <= t < s.end for s in line.computes)
            for t in (line.total * (at + 0.5) / ticks for at in range(0, ticks, 40))
        )
        assert line.overlap == pytest.approx(both * line.total / 100, abs=0.06 * line.total)


@pytest.mark.parametrize(("load", "compute"), [(0.001, 1000.0), (0.1, 0.1), (0.1, 0.3)])
def test_rounding_is_no_stall(load: float, compute: float) -> None:
    """Sums of times that binary does not hold end a little off."""
    assert timeline(2, load, compute, 1000).stalls == 0
    single = timeline(1, load, compute, 1000)
    assert single.stalls == pytest.approx(999 * load)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0, 1, 1, 1), r"stages=0 must be 1\.\.64\."),
        ((2, -1, 1, 1), r"load=-1 must be a time of 0 or more"),
        ((2, 1, float("nan"), 1), r"compute=nan must be a time"),
        ((2, 1, 1, 0), r"tiles=0 must be 1\.\.100000\."),
        ((2, 1, 1, 1, 2), r"transfer=2 is a part of load=1"),
        ((2, 0, 0, 1), r"load and compute are both 0"),
    ],
)
def test_bad_input(arguments: tuple[int, float, float, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        timeline(*arguments)
