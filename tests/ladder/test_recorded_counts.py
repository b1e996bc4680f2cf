"""The counts that docs/ladder.md shows are what the emulator counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.bench.rung_counts import RungCounts, count, read
from tilewright.ladder.rungs import RUNGS

RECORDED = read(Path(__file__).parents[1] / "data" / "rung_counts_emulator.jsonl")


@pytest.fixture(scope="module")
def counted(compiler: str) -> dict[str, RungCounts]:
    return {line.name: line for line in count()}


def test_equal(counted: dict[str, RungCounts], compiler: str) -> None:
    """By the compiler that they were recorded with; what others make of the code may differ."""
    recorded_with = {line.compiler for line in RECORDED.values()}
    if recorded_with != {compiler}:
        pytest.skip(f"the counts are of {', '.join(sorted(recorded_with))}; this is {compiler}")
    assert counted == RECORDED, "run python scripts/ladder_page.py --count"


def test_what_no_compiler_changes(counted: dict[str, RungCounts]) -> None:
    fields = ("arch", "dtype", "m", "n", "k", "shared_bytes", "global_sectors_store", "intensity")
    assert list(counted) == list(RECORDED)
    assert {rung.name for rung in RUNGS.values() if rung.file.endswith(".cu")} <= set(counted)
    for name, line in counted.items():
        assert [line.fields[field] for field in fields] == [
            RECORDED[name].fields[field] for field in fields
        ]
