"""SARIF 2.1.0: what its schema requires, and one golden document."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tilewright import __version__
from tilewright.emulator.findings import Finding
from tilewright.emulator.kinds import KINDS, kind_of
from tilewright.emulator.report import Report
from tilewright.emulator.sarif import document, to_dict

GOLDEN = Path(__file__).parent / "golden" / "results.sarif"


def test_golden(transpose_report: Report) -> None:
    expected = GOLDEN.read_text(encoding="utf-8").replace("VERSION", __version__)
    assert document([transpose_report]) == expected


def test_required_parts(
    transpose_report: Report, hostile_report: Report, clean_report: Report, tmp_path: Path
) -> None:
    log = json.loads(document([transpose_report, hostile_report, clean_report]))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"] == "tilewright"
    assert len({rule["id"] for rule in rules}) == len(rules)
    assert {rule["id"] for rule in rules} > set(KINDS)
    for rule in rules:
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"]
        assert re.fullmatch(r"\w+", rule["name"])
        assert rule["defaultConfiguration"]["level"] in ("error", "warning")
    assert len(run["results"]) == 4
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning")
        assert result["message"]["text"]
        (location,) = result["locations"]
        uri = location["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"[A-Za-z0-9%._~/:-]+", uri)
        assert location["physicalLocation"]["region"]["startLine"] >= 1
    assert to_dict([])["runs"][0]["results"] == []
    transpose_report.to_sarif(tmp_path / "r.sarif")
    assert json.loads((tmp_path / "r.sarif").read_text(encoding="utf-8"))["runs"]


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("a b/k.cu", "a%20b/k.cu"),
        ("a\\k.cu", "a/k.cu"),
        ("/src/ü.cu", "file:///src/%C3%BC.cu"),
        ("C:\\k.cu", "file:///C:/k.cu"),
        ("", "unknown"),
    ],
)
def test_places(file: str, uri: str) -> None:
    report = Report(True, findings=[Finding("race", "", file, 0)])
    result = to_dict([report])["runs"][0]["results"][0]
    assert result["message"]["text"] == "Data race"
    assert result["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": uri}}


def test_kinds() -> None:
    assert kind_of("out_of_bounds") is KINDS["out-of-bounds"]
    assert kind_of("odd-thing").title == "Odd thing"
    assert kind_of("").title == "Finding"
