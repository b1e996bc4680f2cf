"""`tilewright explain fragment`: owners of elements, as rows and as a picture."""

from __future__ import annotations

from typing import Any

import pytest


def test_every_element_is_a_row_of_json(explained: Any) -> None:
    (row,) = explained("fragment mma.m16n8k16.bf16 A")
    assert (row["rows"], row["columns"], row["registers"], row["elements_per_register"]) == (
        16, 16, 4, 2
    )  # fmt: skip
    assert len(row["elements"]) == 256
    assert row["elements"][9] == {"row": 0, "column": 3, "lane": 1, "register": 0, "part": 1}


def test_one_lane(explained: Any, shown: Any) -> None:
    (row,) = explained("fragment mma.m16n8k16.bf16 C --lane 5")
    assert [(e["row"], e["column"]) for e in row["elements"]] == [(1, 2), (1, 3), (9, 2), (9, 3)]
    said = shown("fragment mma.m16n8k16.bf16 C --lane 5")
    assert "lane 5: c0 = (1,2); c1 = (1,3); c2 = (9,2); c3 = (9,3)\n" in said
    assert said.count("[5:c") == 4


def test_the_picture_of_a(shown: Any) -> None:
    lines = shown("fragment mma.m16n8k16.bf16 A").splitlines()
    assert lines[0] == "mma.m16n8k16.bf16: A[16, 16] of bf16"
    assert lines[1] == "Each place names lane:register; a register holds 2 elements along k."
    assert lines[2] == "          0–1    2–3    4–5    6–7    8–9  10–11  12–13  14–15"
    assert lines[3] == "    0   0:a0   1:a0   2:a0   3:a0   0:a2   1:a2   2:a2   3:a2"
    assert lines[18] == "   15  28:a1  29:a1  30:a1  31:a1  28:a3  29:a3  30:a3  31:a3"
    assert "lane 5: a0 = (1,2) (1,3); a1 = (9,2) (9,3); a2 = (1,10) (1,11); a3 =" in lines[21]


def test_the_picture_of_b_goes_down_along_k(shown: Any) -> None:
    lines = shown("fragment m16n8k8.f16 b").splitlines()
    assert lines[3] == "  0–1   0:b0   4:b0   8:b0  12:b0  16:b0  20:b0  24:b0  28:b0"
    assert lines[6] == "  6–7   3:b0   7:b0  11:b0  15:b0  19:b0  23:b0  27:b0  31:b0"


def test_ldmatrix(explained: Any, shown: Any) -> None:
    (row,) = explained("fragment ldmatrix.x4 --lane 5")
    assert (row["instruction"], row["operand"], row["rows"]) == ("ldmatrix.x4", None, 32)
    assert row["elements"][2] == {"row": 9, "column": 2, "lane": 5, "register": 1, "part": 0}
    said = shown("fragment ldmatrix.x1.trans")
    assert said.startswith("ldmatrix.x1.trans: 1 matrix of 8×8 16-bit elements\n")
    assert "a register holds 2 elements below each other.\n" in said
    assert "  0–1   0:r0   4:r0   8:r0  12:r0  16:r0  20:r0  24:r0  28:r0\n" in said
    assert "Lane n gives the address of row n.\n" in said


@pytest.mark.parametrize(
    "words", ["m16n8k32.e4m3 A", "m16n8k64.s4 B", "m8n8k4.f64 A", "m16n8k4.tf32 C"]
)
def test_all_shapes_fit_80_columns(words: str, shown: Any) -> None:
    assert max(map(len, shown(f"fragment {words}").splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("m16n8k16.bf16 X", "operand='X' must be A, B or C (D lies as C)."),
        ("m16n8k16.bf16 ''", "operand='' must be A, B or C (D lies as C)."),
        ("ldmatrix.x4 A", "ldmatrix.x4 has no operand 'A'; leave it out."),
        ("ldmatrix.x3", "access='ldmatrix.x3' is not known; of ldmatrix use ldmatrix.x1"),
        ("m16n8k16.bf16 A --lane 32", "lane=32 must be 0..31."),
        ("m16n16k16.bf16 A", "mma='m16n16k16.bf16': of bf16 there are m16n8k8, m16n8k16"),
        ("", 'Command "explain fragment" parameter INSTRUCTION requires an argument.'),
    ],
)
def test_bad_input(words: str, said: str, refused: Any) -> None:
    assert refused(f"fragment {words}").startswith(said)
