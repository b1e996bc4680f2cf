"""Numbers, lists and declarations."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.emulator.ir import Immediate
from tilewright.emulator.literals import bits, integer, number, split, variable
from tilewright.errors import UnsupportedError


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


@pytest.mark.parametrize(
    ("text", "space", "name", "nbytes", "align"),
    [
        (".shared .align 16 .b8 s[1024]", "shared", "s", 1024, 16),
        (".extern .shared .align 128 .b8 dyn[]", "shared", "dyn", 0, 128),
        (".shared .f32 tile[4][ 33 ]", "shared", "tile", 528, 4),
        (".shared .v4 .f32 quad[2]", "shared", "quad", 32, 16),
        (".visible .global .align 4 .u32 counter", "global", "counter", 4, 4),
        (".local .align 8 .b8 __local_depot0[24]", "local", "__local_depot0", 24, 8),
        (".param .u64 .ptr .global .align 1 p", "param", "p", 8, 8),
        (".param .u64 .ptr .align 256 p", "param", "p", 8, 8),
        (".param .align 8 .b8 args[40]", "param", "args", 40, 8),
        (".const .b32 %odd$name", "const", "%odd$name", 4, 4),
        (".shared .b8 x[0x20]", "shared", "x", 32, 1),
    ],
)
def test_variable(text: str, space: str, name: str, nbytes: int, align: int) -> None:
    found = variable(text)
    assert (found.space, found.name, found.nbytes, found.align) == (space, name, nbytes, align)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (".const .align 4 .b8 c[4] = {1, 2, 0xFF, -1}", b"\x01\x02\xff\xff"),
        (".global .u16 h = 515", b"\x03\x02"),
        (".global .f32 f = 0f3FC00000", b"\0\0\xc0\x3f"),
        (".global .f32 f[2] = {1.5, 0}", b"\0\0\xc0\x3f\0\0\0\0"),
        (".global .f64 f = 1.5", b"\0\0\0\0\0\0\xf8\x3f"),
    ],
)
def test_initial_values(text: str, data: bytes) -> None:
    assert variable(text).data == data


@pytest.mark.parametrize(
    "text",
    [
        ".shared .b8 a[4], b[4]",
        ".shared .b8",
        ".global .texref t",
        ".shared .b8 x[n]",
        ".global .u64 p = other",
        ".global .u64 p[2] = {generic(other), 0}",
        ".global .u8 x[2][2] = {{1, 2}, {3, 4}}",
        ".global .b128 x = 1",
    ],
)
def test_declarations_that_are_not_understood(text: str) -> None:
    with pytest.raises(UnsupportedError):
        variable(text)
