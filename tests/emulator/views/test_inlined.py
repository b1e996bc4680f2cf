"""Lines of inlined functions: beside the user's line, in every form of the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.__main__ import run
from tilewright.emulator.by_line import inlined_words
from tilewright.emulator.findings import Finding
from tilewright.emulator.html import page
from tilewright.emulator.junit import document
from tilewright.emulator.report import Report

CHAIN = ("copy.cuh:12", "tile.cuh:30")
SAID = "(inlined from copy.cuh:12 and tile.cuh:30)"


def test_every_view_says_it(clean_report: Report) -> None:
    finding = Finding("race", "two warps write s[0]", "k.cu", 9, inlined_from=CHAIN)
    report = replace(clean_report, findings=[finding])
    for text in (report.to_text(width=120), page(report), document([report])):
        assert f"two warps write s[0] {SAID}" in text


def test_a_line_that_was_not_inlined_says_nothing() -> None:
    assert inlined_words(Finding("race", "", "k.cu", 9)) == ""


def test_a_header_of_the_user(
    compiler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "load.cuh").write_text(
        "#pragma once\n__device__ inline float load(const float* p, int i) {\n  return p[i];\n}\n"
    )
    source = tmp_path / "k.cu"
    source.write_text(
        '#include "load.cuh"\n__global__ void k(const float* p, float* out) {\n'
        "  out[threadIdx.x] = load(p, threadIdx.x + 1);\n}\n"
    )
    args = [np.ones(32, np.float32), np.empty(32, np.float32)]
    report = tilewright.emulate(source, "k", (1,), (32,), args, include_path=[str(tmp_path)])
    (finding,) = report.findings
    assert (finding.file, finding.line, finding.inlined_from) == ("k.cu", 3, ("load.cuh:3",))
    assert "(inlined from load.cuh:3)" in report.to_text(width=200)
    load, store = json.loads(report.to_json())["accesses"]
    assert (load["file"], load["line"], load["inlined_from"]) == ("k.cu", 3, ["load.cuh:3"])
    assert (store["line"], store["inlined_from"]) == (3, [])
    words = "--grid 1 --block 32 --arg p=ones:32 --arg out=empty:32"
    assert run(["emulate", str(source), *words.split()]) == 1
    assert "(inlined from load.cuh:3)" in " ".join(capsys.readouterr().out.split())
