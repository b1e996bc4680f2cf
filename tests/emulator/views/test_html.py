"""The page: whole, self-contained, escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tilewright.emulator.demands import Demand
from tilewright.emulator.findings import Finding
from tilewright.emulator.html import fragment, page
from tilewright.emulator.html_style import SCRIPT, STYLE
from tilewright.emulator.part import Part
from tilewright.emulator.report import Access, Report

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Collects tags, ids, links and texts, and checks that tags nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.raw: list[str] = []  # scripts and styles
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = {name: value or "" for name, value in attrs}
        self.attributes += values.items()
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "a":
            self.links.append(values["href"])
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style"):
            self.raw.append(data)
        else:
            self.text += data


@pytest.fixture(params=["transpose_report", "clean_report", "hostile_report"])
def report(request: pytest.FixtureRequest) -> Report:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Report)
    return found


def test_it_nests_and_its_links_lead_somewhere(report: Report) -> None:
    for text in (page(report), fragment(report)):
        read = Reader(text)
        assert len(set(read.ids)) == len(read.ids)
        assert {link.removeprefix("#") for link in read.links} <= set(read.ids)
        assert all(link.startswith("#") for link in read.links)


def test_nothing_from_outside_is_loaded_or_run(report: Report) -> None:
    text = page(report)
    read = Reader(text)
    assert read.raw == [STYLE, SCRIPT]
    names = {name for name, _ in read.attributes}
    assert not names & {"src", "srcset", "data", "action"}
    assert not [name for name in names if name.startswith("on")]
    assert "link" not in read.tags
    assert "img" not in read.tags
    assert "http" not in text.replace("http-equiv", "")
    assert "url(" not in text
    assert "default-src 'none'" in text
    assert "script" not in Reader(fragment(report)).tags


def test_hostile_texts_are_escaped(hostile_report: Report, tmp_path: Path) -> None:
    text = page(hostile_report)
    read = Reader(text)
    assert read.tags.count("script") == 1
    assert text.count("<script>") == 1
    assert read.text.count("<script>alert('&\"')</script>") >= 6
    assert not any(c in text for c in "\x1b\x07\x00\u202e\ud800")
    hostile_report.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == text


def test_what_it_shows(transpose_report: Report) -> None:
    read = Reader(page(transpose_report))
    for words in ("transpose, grid 3×2, block 32×8", "✗ 3 findings", "Data race", "ld.global.u32"):
        assert words in read.text
    for words in ("+5,952", "+216", "+61,728", "32.0", "6,240 wavefronts", "// six"):
        assert words in read.text
    assert read.links.count("#f1-15") >= 4  # a finding, two accesses, the line itself
    assert {"f1-15", "f1-16", "f2-70"} <= set(read.ids)
    assert ("style", "--n:100%") in read.attributes


def test_worst_lines_can_come_first(transpose_report: Report) -> None:
    """Each line that matters is a body of its own with its notes; the script moves bodies."""
    text = page(transpose_report)
    assert re.findall(r'data-rank="(\d+)"', text) == ["0", "0"]  # one in each of the two files
    body = text[text.index('<tbody data-rank="0">') :]
    body = body[: body.index("</tbody>")]
    assert 'id="f1-15"' in body
    assert "32-way bank conflicts" in body
    assert "Access out of bounds" in body
    assert 'id="f1-16"' not in body
    assert text.count("<tbody") == text.count("</tbody>")
    assert "Worst lines first" in SCRIPT
    assert ".worst tbody:not([data-rank])" in STYLE


def test_ranks_follow_the_cost() -> None:
    rows = [
        Access("ld.shared.u32", "k.cu", line, "shared", 1, waves, 1, 0, 0, 4)
        for line, waves in ((1, 2), (2, 1), (3, 9), (4, 5))
    ]
    report = Report(True, rows, sources={"k.cu": "a;\nb;\nc;\nd;\n"})
    assert re.findall(r'data-rank="(\d+)"|id="f1-(\d)"', page(report)) == [
        ("2", ""), ("", "1"), ("", "2"), ("0", ""), ("", "3"), ("1", ""), ("", "4"),
    ]  # fmt: skip


def test_demands_parts_and_symbols(clean_report: Report) -> None:
    demands = [
        Demand("check", "c ~ <a> @ b", False, "1 of 4 elements are wrong"),
        Demand("excess", "at most 0", True, "0 bank conflicts; the limit is 0"),
    ]
    report = replace(
        clean_report,
        kernel="k<4>",
        symbol="_Z1kILi4EEvv",
        part=Part(((0, 3),), 16),
        demands=demands,
    )
    read = Reader(page(report))
    assert "✗ no findings, 1 failed check" in read.text
    assert "✗ c ~ <a> @ b: 1 of 4 elements are wrong" in read.text
    assert "✓ 0 bank conflicts; the limit is 0" in read.text
    assert "Only 4 of 16 blocks ran: 0 to 3" in read.text
    assert "_Z1kILi4EEvv" in read.text


def test_what_the_kernel_printed(clean_report: Report) -> None:
    report = replace(clean_report, printed=["hello <b>\x1b[31m\n", "wor", "ld\n"] + ["x\n"] * 500)
    read = Reader(page(report))
    assert "hello <b>\ufffd[31m\nworld\nx\n" in read.text
    assert "The first 400 of 502 lines." in read.text
    assert "#printed" in read.links
    assert "b" not in read.tags
    assert "printed" not in Reader(page(clean_report)).ids


def test_both_colour_schemes_print_and_keyboard() -> None:
    assert "prefers-color-scheme: dark" in STYLE
    assert "@media print" in STYLE
    assert ":focus-visible" in STYLE


def test_fragments_do_not_share_anchors(transpose_report: Report, clean_report: Report) -> None:
    first, second = (Reader(fragment(r)).ids for r in (transpose_report, clean_report))
    assert not set(first) & set(second)
    assert transpose_report._repr_html_() == fragment(transpose_report)


def test_an_ordinary_kernel_stays_small() -> None:
    lines = 400
    text = "".join(f"  acc[{n}] += a[{n}] * b[{n}]; // some words {n}\n" for n in range(lines))
    rows = [
        Access("ld.shared.v4.f32", "k.cu", n % 150 + 1, "shared", 9, 99, 9, 0, 0, 9)
        for n in range(600)
    ]
    found = [Finding("race", f"warps {n} and 1", "k.cu", n + 1) for n in range(40)]
    issues = {"k.cu": dict.fromkeys(range(1, lines + 1), 1234)}
    report = Report(True, rows, {}, found, sources={"k.cu": text}, issues=issues)
    size = len(page(report).encode())
    assert size < 200_000, size


def test_a_long_file_is_cut(transpose_report: Report) -> None:
    long = "\n" * 5000
    rows = [Access("ld.shared.u32", "k.cu", n, "shared", 1, 2, 1, 0, 0, 4) for n in (100, 4000)]
    report = replace(transpose_report, accesses=rows, findings=[], sources={"k.cu": long})
    text = page(report)
    assert "lines left out" in text
    assert len(text) < 50_000
    assert len(Reader(text).ids) == len(set(Reader(text).ids))
