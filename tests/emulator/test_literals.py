"""Numbers and lists."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.emulator.ir import Immediate
from tilewright.emulator.literals import bits, integer, number, split


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("42", 42),
        ("-17U", -17),
        ("0xFf", 255),
        ("-0X10", -16),
        ("0b1011", 11),
        ("0B1U", 1),
        ("017", 15),
        ("00", 0),
        ("0x7fffffffffffffff", 2**63 - 1),
        ("08", None),
        ("0x", None),
        ("0b2", None),
        ("1e5", None),
        ("", None),
        ("%r1", None),
        ("--1", None),
        ("1_000", None),
    ],
)
def test_integer(word: str, value: int | None) -> None:
    assert integer(word) == value


@pytest.mark.parametrize(
    ("word", "immediate"),
    [
        ("0f3F800000", Immediate(0x3F80_0000, 4)),
        ("-0F3f800000", Immediate(0xBF80_0000, 4)),
        ("0d3FF0000000000000", Immediate(0x3FF0_0000_0000_0000, 8)),
        ("0f3F80000", None),
        ("0f3FF0000000000000", None),
        ("0d3F800000", None),
        ("1.0", Immediate(0x3FF0_0000_0000_0000, 8)),
        ("-.5", Immediate(0xBFE0_0000_0000_0000, 8)),
        ("2.", Immediate(0x4000_0000_0000_0000, 8)),
        ("1e0", Immediate(0x3FF0_0000_0000_0000, 8)),
        ("25E-1", Immediate(0x4004_0000_0000_0000, 8)),
        (".", None),
        ("e5", None),
        ("WARP_SZ", Immediate(32)),
    ],
)
def test_number(word: str, immediate: Immediate | None) -> None:
    assert number(word) == immediate


def test_bits_of_a_float_in_another_width() -> None:
    assert bits(Immediate(0x3FF8_0000_0000_0000, 8), np.dtype("f4")) == 0x3FC0_0000
    assert bits(Immediate(0x3FC0_0000, 4), np.dtype("f8")) == 0x3FF8_0000_0000_0000
    assert bits(Immediate(0x3FC0_0000, 4), np.dtype("u4")) == 0x3FC0_0000
    assert bits(Immediate(-1), np.dtype("?")) == 1
    with pytest.raises(ValueError, match="a float of 4 bytes"):
        bits(Immediate(0x3FC0_0000, 4), np.dtype("u8"))
    with pytest.raises(ValueError, match="the integer 3"):
        bits(Immediate(3), np.dtype("f4"))


def test_split_cuts_outside_brackets() -> None:
    assert split(" a, {b, c} ,[d + 1], (e,f)") == ["a", "{b, c}", "[d + 1]", "(e,f)"]
    assert split("  ") == []
    for text in ("a,,b", ",a", "a,"):
        with pytest.raises(ValueError, match="comma"):
            split(text)
