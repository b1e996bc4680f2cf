"""`tilewright explain swizzle`: the article's swizzles come out, or that there is none."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.model.swizzle_search import Xor

A = "swizzle --rows 128 --pitch 64 --elem 2 --read ldmatrix --write cp.async.cg.16"
B = "swizzle --rows 32 --pitch 256 --elem 2 --read ldmatrix.x2.trans --write cp.async.cg.16"
C = "swizzle --rows 128 --pitch 256 --elem 2 --read ld.16 --write st.4:fragment"


@pytest.mark.parametrize(
    ("words", "macro", "cute", "read", "write"),
    [
        (A, "((col) ^ ((((row) >> 1) & 0x3) << 3))", [2, 3, 3], (64, 256, 64), (128, 128, 64)),
        (B, "((col) ^ (((row) & 0x7) << 3))", [3, 3, 4], (64, 512, 64), (64, 64, 64)),
        (C, "((col) ^ (((row) & 0x7) << 3))", [3, 3, 4], (256, 256, 256), (256, 2048, 256)),
    ],
)
def test_the_articles_swizzles(
    words: str,
    macro: str,
    cute: list[int],
    read: tuple[int, int, int],
    write: tuple[int, int, int],
    explained: Any,
    shown: Any,
) -> None:
    """Each cost is with the swizzle, without it, ideal."""
    (row,) = explained(words)
    assert row["conflict_free"] is True
    assert row["macro"] == f"#define SWIZZLE(row, col) {macro}"
    assert row["cute"] == cute
    for use, costs in (("read", read), ("write", write)):
        found = tuple(row[f"{use}_wavefronts{what}"] for what in ("", "_plain", "_ideal"))
        assert found == costs
    assert f"{row['macro']}\nSwizzle<{', '.join(map(str, cute))}>   in CuTe" in shown(words)


def test_where_the_family_has_none_it_says_how_many_were_tried(explained: Any, shown: Any) -> None:
    words = "swizzle --rows 32 --pitch 128 --elem 4 --read ld.4:column"
    (row,) = explained(words)
    assert (row["conflict_free"], row["tried"]) == (False, 27)
    assert (row["read_wavefronts"], row["read_wavefronts_ideal"]) == (128, 32)
    assert "None of all 27 swizzles of the family" in shown(words)


def test_where_none_is_needed_it_says_so(explained: Any, shown: Any) -> None:
    (row,) = explained("swizzle --pitch 80 --rows 64 --write st.16")
    assert (row["conflict_free"], row["bits"], row["swizzle"]) == (True, 0, "0")
    assert row["macro"] == "#define SWIZZLE(row, col) (col)"
    assert "No swizzle is needed" in shown("swizzle --pitch 80 --rows 64 --write st.16")


def test_writes_that_no_swizzle_helps_are_told(explained: Any, shown: Any) -> None:
    (row,) = explained("swizzle --pitch 48")
    assert row["write_wavefronts"] > row["write_wavefronts_ideal"]
    said = " ".join(shown("swizzle --pitch 48").split())
    assert "Writes are above the ideal, and the family has no swizzle that could help" in said
    said = " ".join(shown("swizzle --read ld.4").split())
    assert "none of all 21 swizzles of the family makes them cheaper" in said


def test_a_pitch_that_is_no_power_of_two_has_no_form_in_cute(explained: Any, shown: Any) -> None:
    (row,) = explained("swizzle --pitch 96")
    assert (row["conflict_free"], row["cute"], row["swizzle"]) == (True, None, "(row>>2)&1")
    assert "CuTe has no form of it: the pitch is no power of two." in shown("swizzle --pitch 96")


@pytest.mark.parametrize(
    ("pitch", "swizzle"), [(32, "(row>>2)&1"), (64, "(row>>1)&3"), (128, "row&7"), (256, "row&7")]
)
def test_what_it_derives_is_clean_in_explain_banks(
    pitch: int, swizzle: str, explained: Any
) -> None:
    (row,) = explained(f"swizzle --pitch {pitch}")
    assert row["swizzle"] == swizzle
    words = f'banks --access ldmatrix.x4 --pitch {pitch} --swizzle "{swizzle}"'
    assert explained(words)[0]["conflicts"] == 0


@pytest.mark.parametrize(
    ("words", "tma"),
    [("--pitch 32", "32B"), ("--pitch 64", "64B"), ("--pitch 128", "128B"), ("--pitch 256", None),
     ("--pitch 96", None), ("--pitch 80 --rows 64", None)],
)  # fmt: skip
def test_which_of_them_tma_writes(words: str, tma: str | None, explained: Any, shown: Any) -> None:
    """Bits 4.. of the address are XORed with bits 7..: 1, 2 or 3 of them."""
    (row,) = explained(f"swizzle {words}")
    assert row["tma"] == tma
    assert (f"SWIZZLE_{tma}   of a tensor map" in shown(f"swizzle {words}")) is (tma is not None)
    if tma is not None:
        bits = {"32B": 1, "64B": 2, "128B": 3}[tma]
        swizzle = Xor(16, row["bits"], row["shift"], row["up"])
        for address in range(0, 4096, 16):
            line, column = divmod(address, row["pitch"])
            by_tma = address ^ (address >> 7 & (1 << bits) - 1) << 4
            assert line * row["pitch"] + (column ^ swizzle.of(line)) == by_tma


def test_the_picture(shown: Any) -> None:
    said = shown(A)
    for line in (
        "  row bit   6  5  4  3  2  1  0",
        "            ·  ·  ·  ·  ●  ●  ·",
        "            ⊕  ⊕  e  e  e",
        "  row   5    2  3  0  1",
    ):
        assert f"{line}\n" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--pitch 24", "pitch=24 must be a multiple of the 16 bytes that move together."),
        ("--elem 3", "elem=3 must be 1, 2, 4 or 8 bytes."),
        ("--rows 0", "rows=0 and pitch=64 must be positive, the pitch a multiple of elem=2."),
        ("--rows 100000", "100000 rows of 64 bytes are more than the 256 KiB that fit an SM."),
        (
            "--rows 64 --pitch 4096 --elem 1 --read ld.1:column --write st.1",
            "64 rows of 4096 bytes take too many accesses to try each swizzle on; fewer rows say",
        ),
        ("--rows 12", "ldmatrix.x4 takes 8 rows and 16 bytes at a time; a tile of 12 rows of 64"),
        ("--read st.4:diagonal", "st.4:diagonal: after ld and st may stand :row, :column,"),
        ("--read ld.global.4", "ld.global.4 does not touch shared memory"),
        (
            "--write cp.async.cg.8",
            "access='cp.async.cg.8' is not known; of cp.async.cg use cp.async.cg.16",
        ),
    ],
)
def test_bad_input(words: str, said: str, refused: Any) -> None:
    assert refused(f"swizzle {words}").startswith(said)
