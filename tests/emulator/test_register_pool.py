"""setmaxnreg: what the warpgroups of a block hold must fit together at some time."""

from __future__ import annotations

import pytest

import tilewright
from tilewright.emulator.parse import parse
from tilewright.emulator.register_pool import entry_registers
from tilewright.emulator.report import Report

BOUNDS = ".maxntid 384, 1, 1\n.minnctapersm 1"


def kernel(bounds: str, *calls: str) -> str:
    """Warpgroup i executes calls[i], the last ones first: they lie behind each other."""
    branches = "".join(f"setp.ne.u32 %p, %r, {group}; @%p bra L{group}; {call} L{group}:\n"
                       for group, call in reversed(list(enumerate(calls))))  # fmt: skip
    return f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry k()
{bounds}
{{ .reg .pred %p; .reg .b32 %r; mov.u32 %r, %tid.x; shr.u32 %r, %r, 7;
{branches} ret; }}
"""


def run(bounds: str, *calls: str) -> Report:
    return tilewright.emulate(kernel(bounds, *calls), "k", 1, 128 * len(calls), [])


def inc(count: int) -> str:
    return f"setmaxnreg.inc.sync.aligned.u32 {count};"


def dec(count: int) -> str:
    return f"setmaxnreg.dec.sync.aligned.u32 {count};"


@pytest.mark.parametrize(
    ("calls", "sum_"),
    [
        ((dec(40), inc(232), inc(232)), ""),  # the last ones wait for the first
        ((dec(40), inc(240), inc(240)), "40 + 240 + 240"),
        (("", inc(232), inc(232)), "168 + 232 + 232"),
        ((dec(40), inc(240) + dec(200), inc(240)), ""),
        ((dec(200), inc(168), inc(168)), ""),  # neither gives nor takes
    ],
)
def test_registers_that_are_never_free(calls: tuple[str, ...], sum_: str) -> None:
    report = run(BOUNDS, *calls)
    assert report.completed == (not sum_)
    if sum_:
        assert {found.kind for found in report.findings} == {"deadlock"}
        assert f"hold or want {sum_} a thread, and the block began with 3 × 168" in (
            report.findings[0].message
        )
    else:
        assert report.findings == []


def test_without_a_number_at_entry_ptxas_ignores_it() -> None:
    """As ptxas 13.5 does: its remark C7508, with 8 registers in the cubin."""
    report = run(".maxntid 384, 1, 1", dec(40), inc(240), inc(240))
    assert report.completed
    assert report.findings == []
    assert ["C7508" in note for note in report.caveats] == [True]
    assert run(BOUNDS, dec(40)).caveats == []


@pytest.mark.parametrize(
    ("bounds", "count"),
    [  # the first two as the cubins of ptxas 13.5 have it
        (".maxntid 384, 1, 1 .minnctapersm 1", 168),
        (".maxntid 384, 1, 1 .minnctapersm 2", 80),
        (".reqntid 384 .maxnreg 160", 160),
        (".maxntid 128 .minnctapersm 1", 256),
        (".maxntid 384", None),
        (".minnctapersm 1", None),
    ],
)
def test_registers_at_entry(bounds: str, count: int | None) -> None:
    assert entry_registers(parse(kernel(bounds, "")).kernels["k"]) == count
