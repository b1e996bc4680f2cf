"""`tilewright import-record`: exit codes, documents, sentences; all or nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.bench.includes import code_of
from tilewright.bench.record import Measurement, append, load, source_hash
from tilewright.cli.import_record import import_record
from tilewright.errors import InputError
from tilewright.ladder.rungs import RUNGS

ROOT = Path(__file__).parent.parent.parent
LINE = replace(
    next(
        line
        for line in load(ROOT / "measurements" / "h200-hgemm.jsonl")
        if line.name == "hgemm_bcf" and line.dtype == "bf16"
    ),
    source_hash=source_hash(code_of(RUNGS["hgemm_bcf"].text)),
)


@pytest.fixture(autouse=True)
def _short_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names without folders, so that no sentence is broken into lines."""
    monkeypatch.chdir(tmp_path)


def file(path: Path, *lines: Measurement) -> Path:
    append(path, lines)
    return path


def test_good_lines_are_added_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = file(tmp_path / "new.jsonl", LINE)
    into = file(Path("into.jsonl"), replace(LINE, name="before"))
    assert import_record(new, into=into, json="-") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "schema": "tilewright.import-record/1",
        "rows": [
            {"line": 1, "name": "hgemm_bcf", "gpu": "NVIDIA H200", "status": "ok", "reason": None}
        ],
    }
    assert captured.err.splitlines()[-1] == f"1 of 1 lines added to {into}."
    assert [line.name for line in load(into)] == ["before", "hgemm_bcf"]
    assert import_record(new, into=into) == 1
    assert len(load(into)) == 2


def test_one_refused_line_keeps_all_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = file(tmp_path / "new.jsonl", LINE, replace(LINE, source_hash=None))
    into = Path("into.jsonl")
    assert import_record(new, into=into) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == f"1 of 2 lines refused; nothing was written to {into}."
    assert "of another version of the code" in " ".join(out.split())
    assert not into.exists()


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    into = Path("no folder yet") / "into.jsonl"
    assert import_record(file(tmp_path / "new.jsonl", LINE), into=into, dry_run=True) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == f"1 of 1 lines are fine; a dry run writes nothing to {into}."
    assert not into.parent.exists()


def test_bad_input(tmp_path: Path) -> None:
    new, into = file(tmp_path / "new.jsonl", LINE), tmp_path / "into.jsonl"
    with pytest.raises(InputError, match="cannot be read"):
        import_record(tmp_path / "none.jsonl", into=into)
    with pytest.raises(InputError, match=r"must be a \.jsonl file"):
        import_record(new, into=tmp_path / "into.txt")
    with pytest.raises(InputError, match="would overwrite measurements"):
        import_record(new, into=into, json=str(new))
    assert load(new) == [LINE]
    assert not into.exists()
