"""Reports as SARIF 2.1.0, which code hosts show beside the lines of a change."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tilewright.emulator.by_line import printable
from tilewright.emulator.kinds import KINDS, Kind, kind_of

if TYPE_CHECKING:
    from tilewright.emulator.findings import Finding
    from tilewright.emulator.report import Report

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def document(reports: Sequence[Report]) -> str:
    """One run with the findings of all reports, in ASCII."""
    return json.dumps(to_dict(reports), indent=2) + "\n"


def to_dict(reports: Sequence[Report]) -> dict[str, Any]:
    """The same as a dictionary. Rules: every kind that is known, and those that were found."""
    from tilewright import __version__

    found = {
        kind.name: kind for report in reports for kind in (kind_of(f.kind) for f in report.findings)
    }
    rules = list({**KINDS, **found}.values())
    place = {rule.name: number for number, rule in enumerate(rules)}
    driver = {
        "name": "tilewright",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule) for rule in rules],
    }
    results = [_result(report, finding, place) for report in reports for finding in report.findings]
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(kind: Kind) -> dict[str, Any]:
    return {
        "id": kind.name,
        "name": "".join(word.capitalize() for word in re.findall(r"\w+", kind.title)),
        "shortDescription": {"text": f"{kind.title}."},
        "fullDescription": {"text": kind.meaning},
        "defaultConfiguration": {"level": kind.level},
    }


def _result(report: Report, finding: Finding, place: dict[str, int]) -> dict[str, Any]:
    kind = kind_of(finding.kind)
    location = _location(report, finding.file, finding.line)
    location["logicalLocations"] = [{"name": report.kernel or "kernel", "kind": "function"}]
    result: dict[str, Any] = {
        "ruleId": kind.name,
        "ruleIndex": place[kind.name],
        "level": kind.level,
        "message": {"text": printable(finding.message) or kind.title},
        "locations": [location],
    }
    if finding.other_line is not None:
        other = _location(report, finding.file, finding.other_line)
        other["message"] = {"text": "The other access."}
        result["relatedLocations"] = [other]
    return result


def _location(report: Report, file: str, line: int) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
    if line >= 1:
        region: dict[str, Any] = {"startLine": line}
        text = report.sources.get(file, "").split("\n")
        if line <= len(text) and text[line - 1].strip():
            region["snippet"] = {"text": printable(text[line - 1])}
        physical["region"] = region
    return {"physicalLocation": physical}


def _uri(file: str) -> str:
    """A relative reference for a relative name, file:///… for an absolute one."""
    safe = printable(file)
    if PurePosixPath(safe).is_absolute():
        return PurePosixPath(safe).as_uri()
    if PureWindowsPath(safe).is_absolute():
        return PureWindowsPath(safe).as_uri()
    return quote(safe.replace("\\", "/")) or "unknown"
