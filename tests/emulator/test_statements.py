"""Cutting PTX text into statements."""

from __future__ import annotations

import pytest

from tilewright.emulator.statements import statements, without_comments
from tilewright.errors import UnsupportedError


def kinds(text: str) -> list[tuple[str, str, int]]:
    return [(s.kind, s.text, s.line) for s in statements(without_comments(text))]


def test_a_kernel_in_pieces() -> None:
    text = """.version 8.0
.visible .entry k(
  .param .u64 p
)
{
  .reg .b32 %r<2>;
L: ld.global.v2.u32 {%r0, %r1},
     [%rd1];
  { mov.u32 %r0, 1; }
  bra L;
}
"""
    assert kinds(text) == [
        ("directive", ".version 8.0", 1),
        ("open", ".visible .entry k(\n  .param .u64 p\n)", 2),
        ("statement", ".reg .b32 %r<2>", 6),
        ("label", "L", 7),
        ("statement", "ld.global.v2.u32 {%r0, %r1},\n     [%rd1]", 7),
        ("open", "", 9),
        ("statement", "mov.u32 %r0, 1", 9),
        ("close", "", 9),
        ("statement", "bra L", 10),
        ("close", "", 11),
    ]


def test_comments_keep_the_line_numbers() -> None:
    text = "/* a\n b */ add.u32/*;*/%r1 // {\n , 1;\n/* { */ ret;"
    assert kinds(text) == [
        ("statement", "add.u32 %r1  \n , 1", 2),
        ("statement", "ret", 4),
    ]


def test_a_comment_parts_two_words() -> None:
    assert without_comments("bra/**/L") == "bra L"


def test_strings_hold_no_marks_and_no_comments() -> None:
    text = '.file 1 "http://a;b{c/*d*/"\n.pragma "no;unroll{";\n'
    assert [s[1] for s in kinds(text)] == ['.file 1 "http://a;b{c/*d*/"', '.pragma "no;unroll{"']


def test_an_unfinished_comment_runs_to_the_end() -> None:
    assert kinds("ret; /* never closed ; ret;") == [("statement", "ret", 1)]


def test_carriage_returns() -> None:
    assert kinds(".version 8.0\r\nret;\r\n") == [
        ("directive", ".version 8.0", 1),
        ("statement", "ret", 2),
    ]


def test_double_colons_are_no_labels() -> None:
    (only,) = kinds("ld.global.L2::128B.u32 %r1, [%rd1];")
    assert only[0] == "statement"


def test_initialisers_are_no_scopes() -> None:
    (only,) = kinds(".global .b8 x[3] = {1, 2,\n 3};")
    assert only[0] == "statement"


def test_sections_open_and_close() -> None:
    text = ".section .debug_str\n{\n$L__info_string0:\n.b8 95, 90\n}\n"
    assert [s[0] for s in kinds(text)] == ["open", "label", "close"]


@pytest.mark.parametrize("text", ["ret", "mov.u32 %r1, {%h1;", ".visible .entry k(.param .u64 p {"])
def test_text_that_stops_in_a_statement(text: str) -> None:
    with pytest.raises(UnsupportedError, match="PTX line 2: the text stops inside"):
        kinds("\n" + text)


def test_an_unpaired_bracket_does_not_reach_past_its_statement() -> None:
    assert [s[1] for s in kinds("ld.global.u32 %r1, [%rd1;{ret;}")][1:] == ["", "ret", ""]
