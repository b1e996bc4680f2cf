"""What a machine instruction costs, from the rows that the emulator counted."""

from __future__ import annotations

from dataclasses import replace

from tilewright.bench.rung_replay import costs_of, l1_clocks
from tilewright.emulator.report import Access
from tilewright.model.replay import Cost


def access(opcode: str, space: str, **given: int) -> Access:
    row = Access(opcode, "a.cu", 1, space, 10, 0, 0, 0, 0, 1280)
    return replace(row, **given)  # type: ignore[arg-type]


def test_costs_are_means_by_kind_and_width() -> None:
    rows = [
        access("ld.shared.v4.f32", "shared", bytes=5120, wavefronts=20),
        access("ld.shared.v4.f32", "shared", bytes=5120, wavefronts=80),
        access("ld.shared.f32", "shared", wavefronts=10),
        access("st.shared.f32", "shared", wavefronts=40),
        access("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "shared", bytes=5120, wavefronts=40),
        access(
            "cp.async.cg.shared.global", "global>shared", bytes=5120, wavefronts=40, sectors=160
        ),
        access("ld.global.f32", "global", sectors=40, sectors_ideal=40),
        access("st.global.f32", "global", sectors=40, sectors_ideal=40),
        access("st.global.f32", "global", requests=0),
    ]
    assert costs_of(rows) == {
        ("ld.shared", 16): Cost(5.0),
        ("ld.shared", 4): Cost(1.0),
        ("st.shared", 4): Cost(4.0),
        ("ldmatrix", 4): Cost(4.0),
        ("cp.async", 16): Cost(4.0, 512.0),
        ("ld.global", 4): Cost(1.0, 128.0),
    }
    assert costs_of(rows[-3:], 0.25) == {("ld.global", 4): Cost(1.0, 32.0)}


def test_lines_that_l1_looks_up() -> None:
    """One for a broadcast and for a row of 128 bytes, four for 16 bytes a lane, 32 for a column."""
    for sectors, ideal, lines in ((10, 10, 10), (40, 40, 10), (160, 160, 40), (320, 40, 320)):
        row = access("ld.global.f32", "global", sectors=sectors, sectors_ideal=ideal)
        assert l1_clocks(row) == lines
