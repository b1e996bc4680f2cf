"""Reports as JUnit XML, which continuous integration shows as tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from tilewright.emulator.by_line import after_kind, files, inlined_words, title

if TYPE_CHECKING:
    from tilewright.emulator.report import Report

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_WIDTH = 80  # of the source view: who reads the file has another terminal


def document(reports: Iterable[Report], *, suite: str = "tilewright.emulate") -> str:
    """One test case a report, named like its kernel, with one failure if anything is wrong.

    The schema has no more than one. Its text lists all findings and unmet demands, a line each.
    A launch that did not complete fails also if nothing says why. Each case's output is the
    source view and what the kernel printed. What the findings do not cover is in properties of
    the suite, named "note".
    """
    kept = list(reports)
    cases = [_case(report) for report in kept]
    failed = sum(case.find("failure") is not None for case in cases)
    counts = {
        "tests": str(len(cases)),
        "failures": str(failed),
        "errors": "0",
        "skipped": "0",
        "time": "0",
    }
    top = ET.Element("testsuites", counts)
    within = ET.SubElement(top, "testsuite", {"name": suite, **counts})
    within.extend([*_properties(kept), *cases])
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
    if faults := _faults(report):
        kinds = ", ".join(dict.fromkeys(fault.kind for fault in faults))
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        said = {"type": _legal(kinds), "message": _legal(faults[0].message + more)}
        ET.SubElement(case, "failure", said).text = _legal("\n".join(it.text for it in faults))
    ET.SubElement(case, "system-out").text = _legal(_output(report))
    return case


@dataclass(frozen=True)
class _Fault:
    kind: str
    message: str
    text: str  # with its place


def _faults(report: Report) -> list[_Fault]:
    """All that makes a case fail: findings, demands, or that the launch did not complete."""
    faults = []
    for finding in report.findings:
        where = f"{report.paths.get(finding.file, finding.file)}:{finding.line}"
        text = f"{where}: {finding.kind}: {after_kind(finding)}{inlined_words(finding)}"
        faults.append(_Fault(finding.kind, finding.message, text))
    faults += [_Fault(it.kind, it.message, it.sentence) for it in report.unmet]
    if not report.completed and not report.findings:
        faults.append(_Fault("incomplete", report.verdict, report.verdict))
    return faults


def _properties(reports: Iterable[Report]) -> Iterator[ET.Element]:
    """What a case that passes does not say; the schema has them in a suite, before its cases."""
    notes = [f"{title(report)}: {words}" for report in reports for words in report.caveats]
    if notes:
        properties = ET.Element("properties")
        for note in notes:
            ET.SubElement(properties, "property", {"name": "note", "value": _legal(note)})
        yield properties


def _output(report: Report) -> str:
    printed = "".join(report.printed)
    return f"\n{report.to_text(width=_WIDTH)}\n" + (f"\n{printed}\n" if printed else "")


def _legal(text: str) -> str:
    """Without the characters that no XML document may hold, not even escaped."""
    return _NOT_XML.sub("\ufffd", text)
