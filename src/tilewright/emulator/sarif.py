"""Reports as SARIF 2.1.0, which code hosts show beside the lines of a change."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tilewright.emulator.by_line import printable, title
from tilewright.emulator.kinds import DEMANDS, KINDS, Kind, kind_of
from tilewright.emulator.source_files import local_name

if TYPE_CHECKING:
    from tilewright.emulator.demands import Demand
    from tilewright.emulator.findings import Finding
    from tilewright.emulator.report import Report

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def document(reports: Sequence[Report]) -> str:
    """One run with the findings of all reports, in ASCII."""
    return json.dumps(to_dict(reports), indent=2) + "\n"


def to_dict(reports: Sequence[Report]) -> dict[str, Any]:
    """The same as a dictionary. Rules: every kind that is known, and those that were found.

    Files are named relative to the working folder; those elsewhere to folders of their own, which
    `originalUriBaseIds` lists.
    """
    from tilewright import __version__

    found = {
        kind.name: kind for report in reports for kind in (kind_of(f.kind) for f in report.findings)
    }
    rules = list({**KINDS, **DEMANDS, **found}.values())
    place = {rule.name: number for number, rule in enumerate(rules)}
    driver = {
        "name": "tilewright",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule) for rule in rules],
    }
    files = _Files()
    results = [
        result
        for report in reports
        for result in (
            *(_result(report, finding, place, files) for finding in report.findings),
            *(_unmet(report, demand, place, files) for demand in report.unmet),
        )
    ]
    run: dict[str, Any] = {"tool": {"driver": driver}}
    if reports:
        run["invocations"] = [_invocation(report) for report in reports]
    if files.folders:
        run["originalUriBaseIds"] = {
            name: {"uri": uri} for uri, name in sorted(files.folders.items(), key=lambda it: it[1])
        }
    run |= {"columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _invocation(report: Report) -> dict[str, Any]:
    """Whether the launch came to its end, and what was not looked at."""
    said = [] if report.completed else [("error", report.verdict)]
    said += [("note", words) for words in report.caveats]
    return {
        "executionSuccessful": report.completed,
        "toolExecutionNotifications": [
            {"level": level, "message": {"text": printable(f"{title(report)}: {words}")}}
            for level, words in said
        ],
    }


def _rule(kind: Kind) -> dict[str, Any]:
    return {
        "id": kind.name,
        "name": "".join(word.capitalize() for word in re.findall(r"\w+", kind.title)),
        "shortDescription": {"text": f"{kind.title}."},
        "fullDescription": {"text": kind.meaning},
        "defaultConfiguration": {"level": kind.level},
    }


def _result(
    report: Report, finding: Finding, place: dict[str, int], files: _Files
) -> dict[str, Any]:
    kind = kind_of(finding.kind)
    location = _location(report, finding.file, finding.line, files)
    location["logicalLocations"] = [_function(report)]
    result: dict[str, Any] = {
        "ruleId": kind.name,
        "ruleIndex": place[kind.name],
        "level": kind.level,
        "message": {"text": printable(finding.message) or kind.title},
        "locations": [location],
    }
    if finding.other_line is not None:
        other = _location(report, finding.file, finding.other_line, files)
        other["message"] = {"text": "The other access."}
        result["relatedLocations"] = [other]
    return result


def _unmet(report: Report, demand: Demand, place: dict[str, int], files: _Files) -> dict[str, Any]:
    """A demand that failed, at its line or, without one, at the kernel's file."""
    file = demand.file or next(iter(report.sources), "")
    location = _location(report, file, demand.line or 0, files)
    location["logicalLocations"] = [_function(report)]
    kind = DEMANDS[demand.kind]
    return {
        "ruleId": kind.name,
        "ruleIndex": place[kind.name],
        "level": kind.level,
        "message": {"text": printable(demand.sentence)},
        "locations": [location],
    }


def _function(report: Report) -> dict[str, Any]:
    named: dict[str, Any] = {"name": printable(report.kernel) or "kernel", "kind": "function"}
    if report.symbol and report.symbol != report.kernel:
        named["decoratedName"] = printable(report.symbol)
    return named


def _location(report: Report, file: str, line: int, files: _Files) -> dict[str, Any]:
    artifact = files.location(report.paths.get(file, file))
    physical: dict[str, Any] = {"artifactLocation": artifact}
    if line >= 1:
        region: dict[str, Any] = {"startLine": line}
        text = report.sources.get(file, "").split("\n")
        if line <= len(text) and text[line - 1].strip():
            region["snippet"] = {"text": printable(text[line - 1])}
        physical["region"] = region
    return {"physicalLocation": physical}


class _Files:
    """Names of files as relative references; `folders` are those outside the working folder."""

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}

    def location(self, file: str) -> dict[str, str]:
        safe = printable(local_name(file))
        for kind in (PurePosixPath, PureWindowsPath):
            path: PurePath = kind(safe)
            if path.is_absolute() and path.name:
                folder = path.parent.as_uri()
                folder += "" if folder.endswith("/") else "/"
                name = self.folders.setdefault(folder, f"FOLDER{len(self.folders) + 1}")
                return {"uri": quote(path.name), "uriBaseId": name}
        # A colon before the first slash would read as a scheme, and quote leaves none.
        return {"uri": quote(safe.replace("\\", "/")) or "unknown"}
