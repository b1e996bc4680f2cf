"""JUnit XML: its structure and one golden document."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

from tilewright.emulator.demands import Demand
from tilewright.emulator.junit import document
from tilewright.emulator.report import Report

GOLDEN = Path(__file__).parent / "golden" / "junit.xml"


def test_golden(transpose_report: Report, clean_report: Report) -> None:
    expected = GOLDEN.read_text(encoding="utf-8")
    assert document([transpose_report, clean_report]) == expected


def test_required_parts(
    transpose_report: Report, clean_report: Report, hostile_report: Report, tmp_path: Path
) -> None:
    reports = [transpose_report, clean_report, hostile_report, Report(False)]
    top = ET.fromstring(document(reports).encode())
    assert top.tag == "testsuites"
    (suite,) = top
    assert suite.tag == "testsuite"
    assert {"name", "tests", "failures", "errors", "skipped", "time"} <= set(suite.attrib)
    assert (suite.get("tests"), suite.get("failures")) == ("4", "3")
    cases = suite.findall("testcase")
    assert [len(case.findall("failure")) for case in cases] == [1, 0, 1, 1]
    for case in cases:
        assert case.get("name")
        assert case.get("classname")
        assert case.get("time") == "0"
        assert [child.tag for child in case][-1] == "system-out"
        assert all(f.get("type") and f.get("message") for f in case.findall("failure"))
    hostile_report.to_junit(tmp_path / "r.xml")
    name = ET.parse(tmp_path / "r.xml").getroot()[0][0].get("name")
    assert name is not None
    assert name.startswith("<script>")


def test_failed_demands_and_what_was_printed(clean_report: Report) -> None:
    demands = [
        Demand("check", "c ~ a\x00", False, "1 of 4 elements are wrong"),
        Demand("excess", "at most 0", True, ""),
    ]
    report = replace(clean_report, demands=demands, printed=["hello \x1b[31m"])
    (case,) = ET.fromstring(document([report]).encode()).iter("testcase")
    (failure,) = case.findall("failure")
    assert failure.attrib == {"type": "check", "message": "1 of 4 elements are wrong"}
    assert failure.text == "c ~ a\ufffd: 1 of 4 elements are wrong"
    assert next(ET.fromstring(document([report])).iter("properties"), None) is None
    assert "hello \ufffd[31m" in str(case.findtext("system-out"))


def test_the_file_is_where_it_lies(transpose_report: Report) -> None:
    report = replace(transpose_report, paths={"k.cu": "src/k.cu"})
    (case,) = ET.fromstring(document([report]).encode()).iter("testcase")
    assert case.get("file") == "src/k.cu"
    assert str(case.findall("failure")[0].text).startswith("src/k.cu:15: ")


def test_one_failure_lists_everything(transpose_report: Report) -> None:
    demand = Demand("excess", "at most 0", False, "31 bank conflicts")
    report = replace(transpose_report, demands=[demand])
    (failure,) = ET.fromstring(document([report]).encode()).iter("failure")
    lines = (failure.text or "").splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "k.cu:15", "k.cu:15", "<ptx>:70", "31 bank conflicts",
    ]  # fmt: skip
    assert failure.get("type") == "out-of-bounds, race, excess"
    assert str(failure.get("message")).endswith(" (and 3 more)")
