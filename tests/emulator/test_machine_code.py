"""PTX against machine code in reports, commands and the ladder, with an nvdisasm of our own."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import sass
from tilewright.__main__ import run
from tilewright.build import Source, build
from tilewright.cache import default_cache
from tilewright.emulator.machine_code import ONLY_PTX
from tilewright.emulator.report import Report
from tilewright.emulator.sass_check import NO_NVDISASM

CUDA = 'extern "C" __global__ void k(const float* p, float* out) {\n  out[0] = p[0] + p[1];\n}\n'
LISTING = """\
\t.section\t.text.k,"ax",@progbits
\t//## File "/there/k.cu", line 2
        /*0000*/                   LDG.E.64 R2, [R2.64] ;
        /*0010*/                   STG.E [R4.64], R2 ;
"""
SAID = "ptxas merged 1 of 2 ld.global: SASS has 1 LDG (k.cu:2: 2 → 1)"
WORDS = ["--grid", "1", "--block", "1", "--arg", "p=ones:2", "--arg", "out=empty:1"]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An nvdisasm that prints LISTING; each call adds a line to the file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    Path("k.cu").write_text(CUDA)
    (tmp_path / "listing").write_text(LISTING)
    program = tmp_path / "nvdisasm"
    program.write_text(f"#!/bin/sh\necho >> {tmp_path}/calls\ncat {tmp_path}/listing\n")
    program.chmod(0o755)
    monkeypatch.setattr(sass, "find_nvdisasm", lambda: program)
    return tmp_path / "calls"


def emulated() -> Report:
    return tilewright.emulate(
        Path("k.cu"), "k", (1,), (1,), [np.ones(2, "f4"), np.full(1, np.nan, "f4")]
    )


def test_a_difference_is_a_note_in_every_view(compiler: str, calls: Path, tmp_path: Path) -> None:
    report = emulated()
    assert report.clean
    assert report.notes == [SAID]
    assert f"Note: {SAID}" in report.to_text()
    report.to_html(tmp_path / "k.html")
    assert f"<li>Note: {SAID}</li>" in (tmp_path / "k.html").read_text()
    data = json.loads(report.to_json())
    assert data["notes"] == [SAID]
    assert (data["sass"]["compared"], data["sass"]["reason"]) == (True, None)
    (found,) = data["sass"]["differences"]
    assert (found["kind"], found["sass"]) == ("ld.global", "LDG")
    assert (found["ptx_count"], found["sass_count"]) == (2, 1)
    assert found["lines"] == [{"file": "k.cu", "line": 2, "ptx_count": 2, "sass_count": 1}]


def test_nvdisasm_runs_when_somebody_looks_and_once(compiler: str, calls: Path) -> None:
    report = emulated()
    assert not calls.exists()
    assert report.notes == replace(report).notes == pickle.loads(pickle.dumps(report)).notes
    str(report)
    sass._listing.cache_clear()  # another process
    assert emulated().notes == [SAID]
    assert len(calls.read_text().splitlines()) == 1


def test_the_cache_forgets_with_the_artifacts(compiler: str, calls: Path, tmp_path: Path) -> None:
    assert emulated().notes
    (kept,) = (tmp_path / "cache").glob("*.text")
    assert len(default_cache().entries()) == 1
    kept.write_bytes(b"not ours")
    sass._listing.cache_clear()
    assert emulated().notes == [SAID]
    assert default_cache().clear() == 1
    assert not list((tmp_path / "cache").iterdir())


def test_the_command_says_it_and_ends_with_0(
    compiler: str, calls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["emulate", "k.cu", *WORDS]) == 0
    assert f"Note: {SAID}" in " ".join(capsys.readouterr().out.split())
    assert run(["emulate", "k.cu", *WORDS, "--json", "-"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["notes"] == [SAID]
    assert row["sass"]["differences"][0]["sass_count"] == 1


def test_an_nvdisasm_that_fails_is_said_in_the_notes(compiler: str, calls: Path) -> None:
    (calls.parent / "nvdisasm").write_text("#!/bin/sh\necho it is too old >&2\nexit 1\n")
    report = emulated()
    (note,) = report.notes
    assert note.startswith("not compared with SASS: ")
    assert note.endswith("it is too old")
    assert "SASS" not in report.to_text()
    assert report.to_dict()["sass"] == {"compared": False, "reason": note, "differences": []}


def test_without_nvdisasm(compiler: str, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sass, "find_nvdisasm", lambda: None)
    report = emulated()
    assert report.notes == [NO_NVDISASM]
    assert "SASS" not in report.to_text()


def test_ptx_is_not_compared(compiler: str, calls: Path) -> None:
    ptx = build(Source("k.cu", CUDA), "sm_80").ptx
    report = tilewright.emulate(ptx, "k", (1,), (1,), [np.ones(2, "f4"), np.ones(1, "f4")])
    assert report.notes == [ONLY_PTX]
    assert not calls.exists()


def test_a_report_made_by_hand_knows_nothing() -> None:
    assert Report(True).notes == []
    assert Report(True).to_dict()["sass"] is None


def test_the_ladder_says_it(compiler: str, calls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (calls.parent / "listing").write_text(LISTING.replace("text.k,", "text.gemm,"))
    words = ["-m", "128", "-n", "256", "-k", "32", "--rung", "hgemm_bcf", "--engine", "emulator"]
    assert run(["ladder", *words]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Note: hgemm_bcf: ptxas dropped" in said
    assert run(["ladder", *words, "--json", "-"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert any(words.startswith("ptxas left out") for words in row["sass"])


@pytest.mark.skipif(sass.find_nvdisasm() is None, reason=NO_NVDISASM)
def test_a_rung_with_the_real_nvdisasm(compiler: str) -> None:
    result: Any = tilewright.ladder(m=128, n=256, k=32, engine="emulator", rungs=["hgemm_bcf"])
    assert result["hgemm_bcf"].sass == ()
