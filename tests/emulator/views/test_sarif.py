"""SARIF 2.1.0: what its schema requires, and one golden document."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tilewright import __version__
from tilewright.emulator.demands import Demand
from tilewright.emulator.findings import Finding
from tilewright.emulator.kinds import KINDS, kind_of
from tilewright.emulator.part import Part
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
        ("a:b.cu", "a%3Ab.cu"),
        ("", "unknown"),
    ],
)
def test_places(file: str, uri: str) -> None:
    report = Report(True, findings=[Finding("race", "", file, 0)])
    result = to_dict([report])["runs"][0]["results"][0]
    assert result["message"]["text"] == "Data race"
    assert result["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": uri}}


@pytest.mark.parametrize(
    ("file", "uri", "folder"),
    [
        ("/src/ü.cu", "%C3%BC.cu", "file:///src/"),
        ("/k.cu", "k.cu", "file:///"),
        ("C:\\a b\\k.cu", "k.cu", "file:///C:/a%20b/"),
    ],
)
def test_places_elsewhere_are_relative_to_a_folder(file: str, uri: str, folder: str) -> None:
    report = Report(True, findings=[Finding("race", "", file, 0)])
    run = to_dict([report, report])["runs"][0]
    for result in run["results"]:
        artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert artifact == {"uri": uri, "uriBaseId": "FOLDER1"}
    assert run["originalUriBaseIds"] == {"FOLDER1": {"uri": folder}}


def test_the_path_and_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("src/k.cu", str(tmp_path / "src" / "k.cu")):
        report = Report(True, findings=[Finding("race", "", "k.cu", 3)], paths={"k.cu": path})
        run = to_dict([report])["runs"][0]
        artifact = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
        assert artifact == {"uri": "src/k.cu"}
        assert "originalUriBaseIds" not in run


def test_parts_and_unmet_demands() -> None:
    demands = [
        Demand("check", "out == in.T", False, "1 of 4 elements are wrong"),
        Demand("excess", "at most 0 bank conflicts", False, "31 bank conflicts", "k.cu", 6),
        Demand("check", "out ~ in", True, ""),
    ]
    report = Report(
        False,
        kernel="k<4>",
        symbol="_Z1kILi4EEvv",
        part=Part(((0, 3),), 16),
        demands=demands,
        sources={"k.cu": "text"},
    )
    run = to_dict([report])["runs"][0]
    check, excess = run["results"]
    assert (check["ruleId"], check["message"]["text"]) == (
        "check",
        "out == in.T: 1 of 4 elements are wrong",
    )
    assert check["locations"][0]["logicalLocations"] == [
        {"name": "k<4>", "kind": "function", "decoratedName": "_Z1kILi4EEvv"}
    ]
    assert check["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "k.cu"}}
    assert excess["locations"][0]["physicalLocation"]["region"] == {"startLine": 6}
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    stopped, part = invocation["toolExecutionNotifications"]
    assert "did not complete" in stopped["message"]["text"]
    assert "Only 4 of 16 blocks ran: 0 to 3" in part["message"]["text"]


def test_kinds() -> None:
    assert kind_of("out_of_bounds") is KINDS["out-of-bounds"]
    assert kind_of("odd-thing").title == "Odd thing"
    assert kind_of("").title == "Finding"
