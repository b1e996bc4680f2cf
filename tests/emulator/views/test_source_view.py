"""The source view in a terminal."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tilewright.emulator.by_line import hunks, printable
from tilewright.emulator.findings import Finding
from tilewright.emulator.html import page
from tilewright.emulator.report import Access, Report
from tilewright.emulator.source_view import SourceView, to_text
from tilewright.errors import InputError

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("order", ["worst", "source"])
def test_golden(order: str, transpose_report: Report) -> None:
    expected = (GOLDEN / f"{order}.txt").read_text(encoding="utf-8")
    assert transpose_report.to_text(order=order) + "\n" == expected


@pytest.mark.parametrize("order", ["worst", "source"])
@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_line_is_wider_than_asked(order: str, width: int, transpose_report: Report) -> None:
    text = transpose_report.to_text(order=order, width=width)
    assert max(map(len, text.splitlines())) <= width


def test_a_line_with_accesses_is_shown_whole(transpose_report: Report) -> None:
    text = transpose_report.to_text(width=140)
    assert "    out[(y + i) * m + x] = tile[threadIdx.x][threadIdx.y + i];" in text


def test_worst_comes_first_and_the_limit_keeps_the_worst() -> None:
    rows = [
        Access("ld.shared.u32", "k.cu", line, "shared", 1, waves, 1, 0, 0, 4)
        for line, waves in ((1, 2), (20, 9), (40, 5), (60, 1))
    ]
    report = Report(True, rows, sources={"k.cu": "".join(f"line{n};\n" for n in range(1, 70))})
    text = to_text(report, context=0)
    assert text.index("line20;") < text.index("line40;") < text.index("line1;")
    assert "line60;" not in text
    limited = to_text(report, context=0, limit=1)
    assert "line20;" in limited
    assert "line40;" not in limited
    assert "2 more lines have" in limited
    assert "One more line has" in to_text(report, limit=2)
    by_line = to_text(report, order="source", context=1)
    assert by_line.index("line1;") < by_line.index("line20;") < by_line.index("line60;")
    assert "⋯ 16 lines" in by_line
    assert "⋯ 8 lines" in by_line


def test_nothing_above_its_ideal(clean_report: Report) -> None:
    text = str(clean_report)
    assert text.startswith("copy: no findings\n")
    assert "No line is above its ideal" in text
    assert "the report does not hold its text" in text
    assert "wave" not in text  # no column for what did not happen
    assert "No access" in str(Report(True))


def test_without_colour_nothing_is_lost(transpose_report: Report) -> None:
    file = StringIO()
    console = Console(file=file, width=80, force_terminal=True, color_system="truecolor")
    console.print(transpose_report)
    assert "\x1b[" in file.getvalue()
    assert "\x1b" not in str(transpose_report)
    assert "15 ✗│" in str(transpose_report)


def test_a_hostile_source_does_not_reach_the_terminal(hostile_report: Report) -> None:
    for text in (str(hostile_report), hostile_report.to_text(order="source")):
        assert not any(c in text for c in "\x1b\x07\u202e\ud800\x00")
        assert "<script>" in text
        text.encode()


def test_lines_beyond_the_text() -> None:
    rows = [Access("ld.shared.u32", "k.cu", line, "shared", 1, 2, 1, 0, 0, 4) for line in (0, 9)]
    report = Report(True, rows, sources={"k.cu": "one\r\n\ttwo\r\n"})
    for order in ("worst", "source", "line"):
        text = report.to_text(order=order)
        assert "   0 !│" in text
        assert "   9 !│" in text
    assert "   2  │    two" in text


def test_orders_and_limits_are_checked(clean_report: Report) -> None:
    with pytest.raises(InputError, match="order='best'"):
        SourceView(clean_report, order="best")
    with pytest.raises(InputError, match="context=-1"):
        SourceView(clean_report, context=-1)


def test_hunks() -> None:
    assert list(hunks([1, 5, 20], 1, 21)) == [range(1, 7), range(19, 22)]
    assert list(hunks([0, 9], 0, 3)) == [range(0, 1), range(9, 10)]
    assert list(hunks([], 2, 9)) == []


def test_counts_have_one_format() -> None:
    rows = [
        Access("ld.shared.u32", "k.cu", line, "shared", n, n, n, 0, 0, 4)
        for line, n in ((1, 77_056), (2, 100_096), (3, 2_458_624), (4, 5))
    ]
    report = Report(True, rows, sources={"k.cu": "text;\n" * 4})
    text = to_text(report, order="source", width=80)
    for n in ("77,056", "100,096", "2,458,624", "5"):
        assert f" {n} " in text
    assert len({line.index("│") for line in text.splitlines() if "│" in line}) == 1


def test_columns_are_those_of_all_lines_that_are_shown() -> None:
    """Line 2 is context of line 1, with counts of another kind than the one above its ideal."""
    rows = [
        Access("ld.global.u32", "k.cu", 1, "global", 1, 0, 0, 32, 4, 4),
        Access("st.shared.u32", "k.cu", 2, "shared", 1, 17, 17, 0, 0, 4),
    ]
    report = Report(True, rows, sources={"k.cu": "a;\nb;\n" + "c;\n" * 9})
    for order in ("worst", "source"):
        assert "    1     17   1.0                  2  │b;" in to_text(
            report, order=order, width=80
        )
    far = [rows[0], replace(rows[1], line=9)]
    assert "fronts" not in to_text(replace(report, accesses=far), width=80)


@pytest.mark.parametrize("width", [40, 50, 60, 70])
def test_a_narrow_view_says_what_it_leaves_out(width: int, transpose_report: Report) -> None:
    file = StringIO()
    Console(file=file, width=200).print(SourceView(transpose_report, width=width))
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= width  # nothing is cut off by the console
    assert ("Left out for want of room: issues" in text) is (width < 70)
    if width == 60:
        assert "issues and requests; 70 columns show all." in " ".join(text.split())
        assert "6,144" in text


def test_printable() -> None:
    assert printable("a\tb\r") == "a   b"
    assert printable("\x1b[0m\u2066×") == "\ufffd[0m\ufffd×"


def test_code_is_cut_between_words_where_that_is_possible() -> None:
    text = "    out[(y + i) * m + x] = tile[threadIdx.x][threadIdx.y]; " + "z" * 50
    rows = [Access("ld.shared.u32", "k.cu", 1, "shared", 1, 2, 1, 0, 0, 4)]
    shown = to_text(Report(True, rows, sources={"k.cu": text}), width=70)
    code = [line.partition("│")[2] for line in shown.splitlines() if "│" in line]
    assert "".join("".join(row.split()) for row in code) == "".join(text.split())
    assert code[0] == "    out[(y + i) * m + x] ="
    assert code[1].startswith("      tile[threadIdx.x]")
    assert all(len(line) <= 70 for line in shown.splitlines())


def test_a_kind_is_said_once() -> None:
    said = "divergent-barrier at 'bar.sync 0': 24 threads have exited"
    report = Report(True, findings=[Finding("divergent-barrier", said, "k.cu", 4)])
    assert f"✗ {said}" in to_text(report)
    assert "divergent-barrier" not in page(report).replace("<code>divergent-barrier</code>", "")


def test_without_a_width_it_is_the_terminals(
    transpose_report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in (60, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert max(map(len, str(transpose_report).splitlines())) <= columns
        assert str(transpose_report) == transpose_report.to_text(limit=5, width=columns)


def test_shares_of_the_excess() -> None:
    def line(waves: int, sectors: int = 0) -> Access:
        return Access("ld.u32", "k.cu", waves, "generic", 1, waves, 1, sectors, 1, 4)

    rows = [line(2001), line(3), line(2, 9)]
    report = Report(True, rows, sources={"k.cu": "x;\n" * 3000})
    text = to_text(report, width=200)
    assert "ld.u32: 2001 × ideal wavefronts, 99 % of the excess" in text
    assert "ld.u32: 3.0 × ideal wavefronts".replace(".0", "") + ", 0.1 % of the excess" in text
    assert "9.0 × ideal sectors, all of the excess" in text
