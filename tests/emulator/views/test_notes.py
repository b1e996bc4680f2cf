"""Notes of a launch: each kind in every view, whatever it is about."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import tilewright
from tilewright.emulator import junit, sarif
from tilewright.emulator.html import page
from tilewright.emulator.part import Part
from tilewright.emulator.report import CHECKS_OFF, Report, with_sources
from tilewright.testing import Emulated, emulated

PTX = (
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
    ".reg .b64 %d<4>;\n.reg .b32 %r<4>;\nld.param.u64 %d0, [p];\n"
    "st.global.u32 [%d0], 7;\nret;\n}\n"
)
ODD = "p holds float64, and the kernel writes 4 bytes of it at a time"


def views(report: Report) -> dict[str, str]:
    """Each form of a report as text without line breaks."""
    (suite,) = ET.fromstring(junit.document([report]).encode())
    properties = suite.findall("properties/property")
    invocation = sarif.to_dict([report])["runs"][0]["invocations"][0]
    notifications = invocation["toolExecutionNotifications"]
    said = {
        "terminal": str(report),
        "page": page(report),
        "json": "\n".join(json.loads(report.to_json())["notes"]),
        "junit": "\n".join(str(it.get("value")) for it in properties if it.get("name") == "note"),
        "sarif": "\n".join(it["message"]["text"] for it in notifications if it["level"] == "note"),
    }
    return {view: " ".join(text.split()) for view, text in said.items()}


@pytest.mark.parametrize(
    ("report", "note"),
    [
        (Report(True, checked=False), CHECKS_OFF),
        (Report(True, remarks=[ODD]), ODD),
        (Report(True, part=Part(((0, 3),), 16)), "Only 4 of 16 blocks ran: 0 to 3;"),
    ],
)
def test_a_note_is_in_every_view(report: Report, note: str) -> None:
    assert {view: note in text for view, text in views(report).items()} == dict.fromkeys(
        ("terminal", "page", "json", "junit", "sarif"), True
    )
    assert not any(note in text for text in views(Report(True)).values())


def test_several_reports_in_one_suite_keep_their_notes_apart() -> None:
    reports = [Report(True, kernel="a", remarks=["x\x00"]), Report(True, kernel="b", checked=False)]
    (suite,) = ET.fromstring(junit.document(reports).encode())
    assert [child.tag for child in suite] == ["properties", "testcase", "testcase"]
    values = [it.get("value") for it in suite.iter("property")]
    assert values == ["a: x\ufffd", f"b: {CHECKS_OFF}"]


def test_remarks_join_those_of_the_launch() -> None:
    report = with_sources(Report(True, remarks=["one"]), {}, remarks=[ODD])
    assert report.notes == ["one", ODD]
    assert with_sources(report, {}).remarks == report.remarks


def test_a_launch_without_checks_says_so() -> None:
    on, off = (
        tilewright.emulate(PTX, "k", 1, 32, [np.zeros(1, "u4")], checks=checks)
        for checks in (True, False)
    )
    assert (on.verdict, off.verdict) == ("no findings", "no findings, checks were off")
    assert (on.to_dict()["checked"], off.to_dict()["checked"]) == (True, False)
    assert CHECKS_OFF in off.notes
    assert CHECKS_OFF not in on.notes


def test_what_a_test_sees(tmp_path: Path) -> None:
    off = emulated(PTX, "k", 1, 32, [np.zeros(1, "u4")], checks=False)
    with pytest.warns(UserWarning, match="k: Checks were off: races"):
        off.assert_clean()
    bad = Emulated(False, checked=False, remarks=[ODD])
    with pytest.raises(AssertionError, match=r"(?s)Note: Checks were off.*Note: p holds float64"):
        bad.assert_clean()
    replace(off).to_junit(tmp_path / "r.xml")
    assert "Checks were off" in (tmp_path / "r.xml").read_text()
