"""`tilewright bench`: options, documents, sentences."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest

from tilewright.__main__ import run

EMULATED = ["--engine", "emulator"]


@pytest.mark.usefixtures("compiler")
def test_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, marks = tmp_path / "rows.csv", tmp_path / "rows.md"
    words = ["--shape", "128x256x64", "--rung", "hgemm_bcf", "--csv", str(table)]
    assert run(["bench", *EMULATED, *words, "--markdown", str(marks), "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tilewright.bench/1"
    (row,) = document["rows"]
    assert (row["name"], row["status"], row["us"], row["suite"]) == (
        "hgemm_bcf", "ok", None, "shape",
    )  # fmt: skip
    assert next(csv.DictReader(StringIO(table.read_text())))["name"] == "hgemm_bcf"
    assert marks.read_text().startswith("| shape |")


def test_the_layout_of_shapes_that_name_none(capsys: pytest.CaptureFixture[str]) -> None:
    """hgemm_bcf takes nn alone."""
    words = ["--shape", "128x256x64", "--shape", "128x256x64:nn", "--rung", "hgemm_bcf"]
    run(["bench", *EMULATED, *words, "--layout", "tt", "--json", "-"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["layout"], row["status"]) for row in rows] == [("tt", "skipped"), ("nn", "ok")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name what to measure: --suite square, or --shape 4096x4096x4096."),
        (["--suite", "big"], "suite='big' is not known; use square, llm, decode, odd, all."),
        (["--shape", "12"], "shape='12' must look like 4096x4096x4096 or 512x6144x4096:nt."),
        (["--shape", "8x8x8", "--cache", "hot"], "cache='hot' is not known; use cold or warm."),
        (["--shape", "8x8x8", "--inputs", "ones"], "inputs='ones' is not known; use normal, "
         "uniform, integers, zeros."),
        (["--shape", "8x8x8", "--rung", "x"], "rung='x' is not known; tilewright ladder --list "
         "names them all."),
        (["--shape", "8x8x8", "--record", "x.jsonl"], "--record keeps times, and the emulator has "
         "none; it needs a GPU."),
        (["--shape", "8x8x8", "--layout", "tx"], "layout='tx' must be one of nn, nt, tn, tt."),
        (["--suite", "odd", "--layout", "nt"], "--layout is for shapes in words; those of a suite "
         "have their own."),
        (["--shape", "0x8x8"], "m=0 must be between 1 and 2147483647."),
    ],
)  # fmt: skip
def test_bad_input(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["bench", *EMULATED, *words]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"tilewright: {said}\n")
