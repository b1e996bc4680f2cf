"""Counts on disk: read back as they were, refused when another schema, stale when code changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.bench import rung_counts
from tilewright.bench.ladder import Row
from tilewright.bench.rung_code import hash_of
from tilewright.bench.rung_counts import KEPT, RungCounts, count, read, stale, write
from tilewright.errors import InputError
from tilewright.ladder.rungs import RUNGS

BCF = RUNGS["hgemm_bcf"]
LINE = RungCounts("hgemm_bcf", "NVRTC 1.0", hash_of(BCF), None, dict.fromkeys(KEPT, 1))


def row(**more: Any) -> Row:
    same = {"name": "hgemm_bcf", "family": "hgemm", "engine": "emulator", "arch": "sm_90"}
    return Row(**same, dtype="bf16", layout="nn", m=256, n=384, k=192, **more)  # type: ignore[arg-type]


def counting(monkeypatch: pytest.MonkeyPatch, *rows: Row) -> list[RungCounts]:
    monkeypatch.setattr(rung_counts, "climb", lambda **how: rows)
    monkeypatch.setattr(rung_counts, "compiler", lambda: "NVRTC 1.0")
    return count()


def test_read_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    skipped = RungCounts("x", "NVRTC 1.0", "0", "cannot run it.", dict.fromkeys(KEPT))
    write(path, [LINE, skipped])
    assert read(path) == {"hgemm_bcf": LINE, "x": skipped}
    write(path, [LINE])
    assert list(read(path)) == ["hgemm_bcf"]


def test_another_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    path.write_text('{"schema": "tilewright.rung-counts/2"}\n')
    with pytest.raises(InputError, match=r"rung-counts/2' is not known; this reads"):
        read(path)


def test_changed_code_is_stale_and_a_changed_remark_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = {"hgemm_bcf": LINE}
    assert stale([BCF], recorded) == []
    assert stale([BCF], {}) == ["hgemm_bcf"]
    monkeypatch.setitem(vars(BCF), "text", "// another remark\n" + BCF.text)
    assert stale([BCF], recorded) == []
    monkeypatch.setitem(vars(BCF), "text", BCF.text.replace("WM = 64", "WM = 32"))
    assert stale([BCF], recorded) == ["hgemm_bcf"]


def test_a_row_becomes_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = counting(monkeypatch, row(registers=7, correct=True))
    assert (line.name, line.compiler, line.reason) == ("hgemm_bcf", "NVRTC 1.0", None)
    assert (line.source_hash, line.fields["registers"]) == (hash_of(BCF), 7)
    assert set(line.fields) == set(KEPT)


def test_a_skipped_row_is_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = counting(monkeypatch, row(status="skipped", reason="no."))
    assert line.reason == "no."
    assert set(line.fields.values()) == {None}


def test_wrong_counts_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"hgemm_bcf is wrong in the emulator: race"):
        counting(monkeypatch, row(status="wrong", reason="race"))


@pytest.mark.parametrize(("instructions", "lines"), [(None, 0), (9, 1)])
def test_a_rung_of_another_language_has_a_line_where_it_ran(
    monkeypatch: pytest.MonkeyPatch, instructions: int | None, lines: int
) -> None:
    other = replace(BCF, file="cpu/10_other.py")
    vars(other)["text"] = "# other: in Python."
    monkeypatch.setitem(RUNGS, "hgemm_bcf", other)
    found = counting(monkeypatch, row(instructions=instructions))
    assert len(found) == lines
    assert stale([other], {line.name: line for line in found}) == []
    assert stale([other], {"hgemm_bcf": LINE}) == ["hgemm_bcf"]
