"""`tilewright explain formats`: bf16 against fp16, range and step, on values."""

from __future__ import annotations

from typing import Any

import pytest


def test_range_and_precision(explained: Any) -> None:
    rows = {row["name"]: row for row in explained("formats")}
    assert list(rows) == ["fp32", "tf32", "bf16", "fp16", "e5m2", "e4m3"]
    fp16, bf16 = rows["fp16"], rows["bf16"]
    assert (fp16["largest"], fp16["epsilon"], fp16["smallest"]) == (65504, 2**-10, 2**-24)
    assert (bf16["epsilon"], bf16["smallest_normal"]) == (2**-7, 2**-126)
    assert bf16["largest"] == pytest.approx(3.3895e38, rel=1e-4)
    assert (rows["e4m3"]["largest"], rows["e4m3"]["infinity"]) == (448, False)
    assert rows["fp32"]["values"] == []


def test_values_in_both(explained: Any) -> None:
    rows = explained("formats --value 257 --value 70000 --value 1e-9 --value -0.1")
    found = {(row["name"], each["value"]): each for row in rows for each in row["values"]}
    assert found["bf16", "257"]["nearest"] == 256
    assert found["bf16", "257"]["step"] == 2
    assert found["fp16", "257"]["rel_error"] == 0
    assert found["fp16", "70000"]["overflows"] is True
    assert found["fp16", "70000"]["nearest"] is None
    assert found["bf16", "70000"]["nearest"] == 70144
    assert found["fp16", "1e-9"]["nearest"] == 0
    assert found["bf16", "-0.1"]["nearest"] == -0.10009765625
    assert found["bf16", "-0.1"]["bits"] == "1 01111011 1001101"


def test_the_picture(shown: Any) -> None:
    said = shown("formats --value 70000 --value 1e-9 --value 1")
    assert "  fp16  infinity: the largest is 65504\n" in said
    assert "  fp16  0: below half of the smallest, 5.96e-08\n" in said
    assert "exact" in said
    assert "the rungs sum in fp32" in " ".join(said.split())
    said = shown("formats --dtype e4m3 --value 464 --value 465")
    assert "  e4m3  448            off 3.4%     step 32" in said
    assert "NaN (with .satfinite 448): the largest is 448" in said
    said = " ".join(shown("formats --dtype tf32 --value 1.00048828125").split())
    assert "tf32 1 " in said  # a tie, to even
    assert "cvt.rn.tf32 (sm_90 and later) ties to even, as above, cvt.rna.tf32 away" in said


def test_what_is_said_twice_is_shown_once(explained: Any, shown: Any) -> None:
    words = "formats --value 3 --value 3 --dtype bf16 --dtype bfloat16"
    assert shown(words).count("  bf16  3 ") == 1
    (values,) = [row["values"] for row in explained(words) if row["values"]]
    assert len(values) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--value many", "value='many' must be a decimal number such as 0.1 or 6e-5,"),
        (" ".join(f"--value {n}" for n in range(101)), "101 values are more than the 100"),
        ("--value 1e999999999", "value='1e999999999' must be a decimal number"),
        ("--value 1/3", "value='1/3' must be a decimal number"),
        ("--value nan", "value='nan' must be a decimal number"),
        ("--dtype fp4", "dtype='fp4' is not known; use fp32, tf32, bf16, fp16, e5m2, e4m3."),
    ],
)
def test_bad_input(words: str, said: str, refused: Any) -> None:
    assert refused(f"formats {words}").startswith(said)
