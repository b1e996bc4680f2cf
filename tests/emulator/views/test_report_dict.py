"""Reports as JSON, and the texts that reach them."""

from __future__ import annotations

import json

import numpy as np

import tilewright
from tilewright.emulator.report import Report, with_sources

PTX = (
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
    ".reg .b64 %d<4>;\n.reg .b32 %r<4>;\nld.param.u64 %d0, [p];\n"
    "ld.global.u32 %r0, [%d0]; st.global.u32 [%d0], %r0;\nret;\n}\n"
)


def test_everything_is_in_the_json(transpose_report: Report, hostile_report: Report) -> None:
    data = json.loads(transpose_report.to_json())
    assert data == transpose_report.to_dict()
    assert data["schema"] == "tilewright.report/1"
    assert (data["kernel"], data["grid"], data["block"]) == ("transpose", [3, 2, 1], [32, 8, 1])
    assert data["accesses"][2]["wavefronts"] == 3072
    assert data["findings"][2]["other_line"] == 68
    assert data["findings"][2]["array"] is None
    assert {"file": "k.cu", "line": 15, "issues": 600} in data["issues"]
    assert list(data["sources"]) == ["k.cu"]
    assert json.loads(hostile_report.to_json())["completed"] is False
    assert json.loads(Report(True).to_json(indent=2))["grid"] is None


def test_issues_by_line_and_the_kernels_name() -> None:
    report = tilewright.emulate(PTX, "k", (2,), (64,), [np.zeros(1, "u4")])
    assert report.kernel == "k"
    assert report.issues == {"<ptx>": {8: 4, 9: 8, 10: 4}}
    assert sum(report.issues["<ptx>"].values()) == report.totals["instructions"]


def test_with_sources() -> None:
    report = tilewright.emulate(PTX, "k", (2,), (64,), [np.zeros(1, "u4")])
    known = with_sources(report, {"k.cu": "", "<ptx>": PTX, "h.cuh": ""}, grid=(2, 1, 1))
    assert list(known.sources) == ["k.cu", "<ptx>"]  # the first, and those that rows lie in
    assert (known.kernel, known.grid) == ("k", (2, 1, 1))
    assert known.block == report.block
    assert "ld.global.u32 %r0, [%d0];" in known.to_text(width=120)
    assert with_sources(known, {}, kernel="other").sources == known.sources


def test_verdicts(transpose_report: Report, clean_report: Report, hostile_report: Report) -> None:
    verdicts = [r.verdict for r in (transpose_report, clean_report, hostile_report, Report(False))]
    assert verdicts == [
        "3 findings",
        "no findings",
        "did not complete, 1 finding",
        "did not complete, no findings",
    ]
    assert [r.clean for r in (transpose_report, clean_report, Report(False))] == [
        False,
        True,
        False,
    ]


def test_the_repr_leaves_the_source_out(transpose_report: Report) -> None:
    assert "__global__" not in repr(transpose_report)
