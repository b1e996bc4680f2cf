"""What a module's first lines may say, and what a report says of the target."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilewright
from tilewright.emulator.by_line import note_words
from tilewright.emulator.module_header import arch_number
from tilewright.emulator.parse import parse
from tilewright.errors import UnsupportedError

BODY = ".visible .entry k() { ret; }\n"


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (".version 99.9\n.target sm_90\n", r"PTX line 1: '\.version 99\.9'.*newest is 9\.x"),
        (".version eight\n.target sm_90\n", "version eight of PTX"),
        (".version\n.target sm_90\n", r"version \(none\)"),
        (".version 8.0\n.target sm_999\n", "PTX line 2.*architecture sm_999.*sm_90, sm_100"),
        (".version 8.0\n.target banana\n", "architecture banana"),
        (".version 8.0\n.target\n", r"architecture \(none\)"),
        (".version 8.0\n.target sm_90\n.address_size 32\n", "32 bits are not modelled"),
        (".version 8.0\n", r"no \.target line"),
        (".target sm_80\n", r"no \.version line"),
    ],
)
def test_headers_that_cannot_be_run(head: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        parse(head + BODY)


@pytest.mark.parametrize(
    "target", ["sm_52", "sm_80, debug", "sm_90a", "sm_100f, texmode_independent", "sm_121"]
)
def test_targets(target: str) -> None:
    assert (
        parse(f".version 8.0\n.target {target}\n.address_size 64\n{BODY}").target
        == (target.split(",")[0])
    )


def test_numbers_of_architectures() -> None:
    assert [arch_number(name) for name in ("sm_90a", "compute_80", "sm_1", "sm_900", "")] == [
        90,
        80,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("target", "noted"), [("sm_80", False), ("sm_90a", False), ("sm_120", True)]
)
def test_counts_of_later_targets_are_noted_once(
    kernel_text: Callable[..., str], target: str, noted: bool
) -> None:
    text = kernel_text("ret;", []).replace("sm_80", target)
    report = tilewright.emulate(text, "k", (1,), (32,), [])
    (said,) = [note for note in report.notes if "rules" in note] or [""]
    assert bool(said) is noted
    assert (said.startswith("counted by rules that were compared with sm_90; sm_120")) is noted
    assert note_words(report) == [f"Note: {said}"] * noted
