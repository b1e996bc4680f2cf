"""Reports as JUnit XML, which continuous integration shows as tests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from tilewright.emulator.by_line import files, inlined_words, title

if TYPE_CHECKING:
    from tilewright.emulator.report import Report

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_WIDTH = 80  # of the source view: who reads the file has another terminal


def document(reports: Iterable[Report], *, suite: str = "tilewright.emulate") -> str:
    """One test case a report, named like its kernel; a failure for each finding and unmet demand.

    A launch that did not complete fails also if nothing says why. Each case's output is the
    source view and what the kernel printed. `failures` counts the cases that fail, as the schema
    has it.
    """
    cases = [_case(report) for report in reports]
    failed = sum(case.find("failure") is not None for case in cases)
    counts = {
        "tests": str(len(cases)),
        "failures": str(failed),
        "errors": "0",
        "skipped": "0",
        "time": "0",
    }
    top = ET.Element("testsuites", counts)
    ET.SubElement(top, "testsuite", {"name": suite, **counts}).extend(cases)
    ET.indent(top)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ET.tostring(top, encoding='unicode')}\n"


def _case(report: Report) -> ET.Element:
    found = files(report)
    file = found[0].name if found else ""
    attributes = {
        "classname": _legal(file) or "kernel",
        "name": _legal(title(report)),
        "time": "0",
    }
    if file:
        attributes["file"] = _legal(report.paths.get(file, file))
    case = ET.Element("testcase", attributes)
    for finding in report.findings:
        said = {"type": _legal(finding.kind), "message": _legal(finding.message)}
        failure = ET.SubElement(case, "failure", said)
        where = f"{report.paths.get(finding.file, finding.file)}:{finding.line}"
        failure.text = _legal(f"{where}: {finding.message}{inlined_words(finding)}")
    for demand in report.unmet:
        said = {"type": demand.kind, "message": _legal(demand.message)}
        ET.SubElement(case, "failure", said).text = _legal(demand.sentence)
    if not report.completed and not report.findings:
        said = {"type": "incomplete", "message": report.verdict}
        ET.SubElement(case, "failure", said).text = report.verdict
    ET.SubElement(case, "system-out").text = _legal(_output(report))
    return case


def _output(report: Report) -> str:
    printed = "".join(report.printed)
    return f"\n{report.to_text(width=_WIDTH)}\n" + (f"\n{printed}\n" if printed else "")


def _legal(text: str) -> str:
    """Without the characters that no XML document may hold, not even escaped."""
    return _NOT_XML.sub("\ufffd", text)
