"""Limits of what a launch may cost, and how they are told."""

from __future__ import annotations

from tilewright.emulator.demands import Demand, excess
from tilewright.emulator.report import Access, Report

REPORT = Report(
    True,
    [
        Access("ld.shared.u32", "k.cu", 5, "shared", 1, 32, 1, 0, 0, 4),
        Access("st.shared.u32", "k.cu", 5, "shared", 1, 3, 1, 0, 0, 4),
        Access("ld.shared.u32", "k.cu", 9, "shared", 1, 2, 4, 0, 0, 4),  # below its ideal
        Access("ldmatrix.x4", "k.cu", 7, "shared", 1, 5, 4, 0, 0, 4),
        Access("cp.async.cg", "k.cu", 3, "global>shared", 1, 9, 2, 8, 4, 4),
        Access("st.global.u32", "k.cu", 6, "global", 1, 0, 0, 6, 4, 4),
    ],
)


def test_each_limit_has_its_own_accesses() -> None:
    wavefronts, sectors, copies = excess(REPORT, {"wavefronts": 0, "sectors": 0, "copies": 0})
    assert wavefronts.message == (
        "34 bank conflicts (wavefronts beyond the ideal), 33 of them at k.cu:5 "
        "(ld.shared.u32, st.shared.u32); the limit is 0"
    )
    assert (wavefronts.file, wavefronts.line, wavefronts.met) == ("k.cu", 5, False)
    assert sectors.message.startswith("6 sectors beyond the ideal, 4 of them at k.cu:3 (cp.async")
    assert copies.message == (
        "7 wavefronts of cp.async beyond the ideal, all at k.cu:3 (cp.async.cg); the limit is 0"
    )


def test_what_is_allowed_is_met() -> None:
    limits = {"wavefronts": 34, "sectors": 6, "copies": 7}
    assert all(demand.met for demand in excess(REPORT, limits))
    just = excess(REPORT, {name: limit - 1 for name, limit in limits.items()})
    assert not any(demand.met for demand in just)
    assert excess(REPORT, {}) == []
    (none,) = excess(Report(True), {"wavefronts": 0})
    assert none.met


def test_sentences() -> None:
    check = Demand("check", "c ~ a @ b", False, "1 of 4 elements are wrong")
    assert check.sentence == "c ~ a @ b: 1 of 4 elements are wrong"
    limit = Demand("excess", "at most 0", False, "3 sectors")
    assert limit.sentence == "3 sectors"
    assert list(check.to_dict()) == ["kind", "text", "met", "message", "file", "line"]


def test_the_verdict_counts_what_failed() -> None:
    check = Demand("check", "c ~ a", False, "")
    limit = Demand("excess", "at most 0", False, "")
    met = Demand("check", "c ~ b", True, "")
    report = Report(True, demands=[check, check, limit, met])
    assert (report.verdict, report.clean, report.passed) == (
        "no findings, 2 failed checks, 1 exceeded limit",
        True,
        False,
    )
    assert report.unmet == [check, check, limit]
    assert Report(True, demands=[met]).passed
