"""What a rung's file says, in CUDA and in other languages."""

from __future__ import annotations

from tilewright.ladder.rung_text import (
    body_of,
    changed_lines,
    diff_of,
    header_of,
    kernel_of,
)
from tilewright.ladder.rungs import RUNGS

CUDA = """\
// a_rung: one sentence: with a colon.
//
// Idea      words that go
//           on here.
// Found     as expected: 1.0 µs (2026-11-30T04:29:06Z).
// Next      b_rung.
#include "tile/fragment.cuh"
// --- Tile ---
constexpr int N = 1;  // a remark

extern "C" __global__ void gemm() {
  int x = N;
}
"""
PYTHON = """\
# c_rung: written in Python.
#
# Idea      the same in
#           another language.

import os  # a remark
print(os.name)
"""


def test_a_header_is_prose() -> None:
    header = header_of(CUDA)
    assert (header.name, header.sentence) == ("a_rung", "one sentence: with a colon.")
    assert header.parts == {
        "Idea": "words that go on here.",
        "Found": "as expected: 1.0 µs (2026-11-30T04:29:06Z).",
        "Next": "b_rung.",
    }
    assert header.records == ("2026-11-30T04:29:06Z",)


def test_a_header_of_another_language() -> None:
    header = header_of(PYTHON)
    assert (header.name, header.sentence) == ("c_rung", "written in Python.")
    assert header.parts == {"Idea": "the same in another language."}
    assert header.records == ()


def test_the_body_begins_behind_the_header() -> None:
    assert body_of(CUDA).startswith("#include")
    assert body_of(PYTHON).startswith("import os")
    assert body_of("# only: a header") == ""


def test_the_kernel() -> None:
    assert kernel_of(CUDA).startswith('extern "C" __global__ void gemm')
    assert kernel_of(PYTHON) == body_of(PYTHON)


def test_remarks_indentation_and_headers_are_no_change() -> None:
    moved = CUDA.replace("  int x", "      int  x").replace("a remark", "another")
    assert changed_lines(CUDA, moved.replace("a_rung", "d_rung")) == []
    assert changed_lines(PYTHON, PYTHON.replace("# a remark", "# another")) == []
    assert changed_lines(CUDA, CUDA.replace("N = 1", "N = 2")) == [
        "-constexpr int N = 1;",
        "+constexpr int N = 2;",
    ]
    assert changed_lines(PYTHON, PYTHON.replace("print(os.name)", "")) == ["-print(os.name)"]


def test_a_diff_is_of_the_bodies() -> None:
    changed = CUDA.replace("N = 1", "N = 2").replace("a_rung", "d_rung")
    assert diff_of(CUDA, changed).splitlines() == [
        "@@",
        " // --- Tile ---",
        "-constexpr int N = 1;  // a remark",
        "+constexpr int N = 2;  // a remark",
        " ",
    ]


def test_the_rungs_themselves() -> None:
    for rung in RUNGS.values():
        header = header_of(rung.text)
        assert (header.name, header.sentence) == (rung.name, rung.idea)
        assert list(header.parts) == ["Idea", "Expect", "Found", "Next"]
