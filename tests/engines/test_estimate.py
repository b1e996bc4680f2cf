"""Launches that take hours say so; huge grids take no memory before they run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.__main__ import run
from tilewright.cli.output import warnings_as_notes
from tilewright.engines import estimate
from tilewright.engines.estimate import Estimate
from tilewright.errors import InputError, LongRunWarning

NOTHING = """.version 8.0
.target sm_80
.address_size 64
.visible .entry nothing(.param .u64 x) { ret; }
"""
LARGEST = (2**31 - 1, 65535, 65535)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the seconds that have passed."""
    now = [0.0]
    monkeypatch.setattr(estimate, "monotonic", lambda: now[0])
    return lambda seconds: now.__setitem__(0, seconds)


@pytest.mark.parametrize(
    ("total", "said"),
    [
        (100 * 720, None),
        (100 * 722, "100 of 72,200 blocks took 5 s, so the rest will take about 1.0 hours"),
        (2**31 - 1, 'will take about 3.4 years; blocks="sample:1000" (--blocks sample:1000) runs'),
    ],
)
def test_hours_are_told_once(total: int, said: str | None, clock: Callable[[float], None]) -> None:
    seen: list[tuple[int, int]] = []
    tell = Estimate(lambda done, total: seen.append((done, total)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for seconds, done in ((1.0, 1), (4.9, 99), (5.0, 100), (9.0, 101)):
            clock(seconds)
            tell(done, total)
    assert [
        str(one.message) for one in caught if said is not None and said in str(one.message)
    ] == ([str(one.message) for one in caught])
    assert len(caught) == (said is not None)
    assert seen == [(done, total) for done in (1, 99, 100, 101)]


def launch(blocks: Any = None, grid: Any = LARGEST, progress: Any = None) -> Any:
    return tilewright.emulate(
        NOTHING, "nothing", grid, (32,), [None], blocks=blocks, progress=progress
    )


class EnoughError(Exception):
    """Ends a launch that would not."""


def test_the_largest_grid_starts_at_once() -> None:
    told: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        told.append((done, total))
        raise EnoughError

    with pytest.raises(EnoughError):
        launch(progress=stop)
    assert told == [(512, (2**31 - 1) * 65535**2)]


@pytest.mark.parametrize("blocks", ["sample:3", "first:3", [0, 7, 2**62], np.array([5, 1, 9])])
def test_a_few_blocks_of_the_largest_grid(blocks: Any) -> None:
    assert launch(blocks).instructions == {"ret": 3}


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        ("sample:1000001", "draws more than 1,000,000 blocks"),
        ([3, 0, 3], r"blocks=\[3, 0, 3\] names block 3 twice"),
        ([1.5], "must be whole numbers"),
        ([-1], "must be ids from 0 to"),
        ([], "at least one"),
        (5, "must be whole numbers"),
    ],
)
def test_blocks_that_are_none(blocks: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        launch(blocks)


def test_all_may_be_drawn() -> None:
    assert launch("sample:2000000", (300,)).instructions == {"ret": 300}


POLLS = NOTHING.replace("ret;", "l: ld.param.u64 %d0, [p]; ld.volatile.global.u32 %r0, [%d0]; "
                        "setp.eq.u32 %q, %r0, 0; @%q bra l; ret;").replace(
                        "{", "{ .reg .b64 %d<2>; .reg .b32 %r<2>; .reg .pred %q;")  # fmt: skip


def test_blocks_that_poll_are_not_done() -> None:
    told: list[tuple[int, int]] = []
    source, array = POLLS.replace("x", "p"), np.zeros(1, "u4")
    report = tilewright.emulate(
        source, None, 1, 32, [array], progress=lambda done, total: told.append((done, total))
    )
    assert [finding.kind for finding in report.findings] == ["endless-loop"]
    assert told == [(0, 1), (1, 1)]


def test_the_command_line_shows_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings_as_notes():
        warnings.warn("it takes 3 years", LongRunWarning, stacklevel=1)
        warnings.warn("it takes 3 years", LongRunWarning, stacklevel=1)
    assert capsys.readouterr().err == "tilewright: note: it takes 3 years\n" * 2


def test_the_command_line_says_how_many_ran(
    tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(NOTHING)
    words = ["emulate", str(path), "--grid", "4", "--block", "32", "--arg", "x=null"]
    assert run([*words, "--blocks", "first:9"]) == 0
    assert "grid 4, block 32: no findings\n" in capsys.readouterr().out  # that is all of them
    assert run([*words, "--blocks", "0,2"]) == 0
    said = capsys.readouterr().out
    assert "grid 4, block 32, 2 of 4 blocks: no findings\n" in said
    assert "Note: Only 2 of 4 blocks ran: 0, 2; unwritten outputs were not looked for.\n" in said

    def interrupt(*args: Any, progress: Any, **options: Any) -> None:
        progress(3, 4)
        raise KeyboardInterrupt

    monkeypatch.setattr("tilewright.cli.emulate_run.emulate", interrupt)
    assert run(words) == 130
    assert capsys.readouterr() == ("", "tilewright: interrupted after 3 of 4 blocks.\n")
