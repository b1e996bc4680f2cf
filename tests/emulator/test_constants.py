"""Constant expressions, which ptxas computes in 64 bits."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.emulator.constants import constant
from tilewright.errors import UnsupportedError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(3+4)*2", 14),
        ("3+4*2", 11),
        ("1<<4", 16),
        ("-(5)", -5),
        ("--3", 3),
        ("+3", 3),
        ("~0", -1),
        ("!0", 1),
        ("!7", 0),
        ("1 ? 2 : 3", 2),
        ("0?2:0?3:4", 4),
        ("(.u64)-1 > 0", 1),
        ("(.s64)5", 5),
        ("3==3", 1),
        ("2<1", 0),
        ("WARP_SZ*2", 64),
        ("1&&0||3", 1),
        ("17 % 5", 2),
        ("-17 / 5", -3),
        ("-17 % 5", -2),
        ("10-4-3", 3),
        ("0xF0>>4|1", 15),
        ("6&3^1", 3),
        ("-1>>1", -1),
        ("0xFFFFFFFFFFFFFFFFU>>60", 15),
        ("0x7FFFFFFFFFFFFFFF+1", -(2**63)),
        ("1<<70", 0),
        ("((((2))))", 2),
        ("0x1FFFFFFFFFFFFFFFF+1", 0),
    ],
)
def test_integers(text: str, value: int) -> None:
    found = constant(text)
    assert found is not None
    assert (found.value, found.float_bytes) == (value, 0)


@pytest.mark.parametrize(
    ("text", "value"), [("1.0+2.0", 3.0), ("1/4.0", 0.25), ("-(1.5)", -1.5), ("2*0f3FC00000", 3.0)]
)
def test_floats(text: str, value: float) -> None:
    found = constant(text)
    assert found is not None
    assert struct.pack("<Q", found.value) == struct.pack("<d", value)


def test_a_float_of_single_precision_stays_one_in_parentheses() -> None:
    found = constant("(0f3F800000)")
    assert found is not None
    assert (found.value, found.float_bytes) == (0x3F80_0000, 4)


@pytest.mark.parametrize("text", ["x+1", "%r1", "1 $ 2", "_", "{1, 2}"])
def test_what_is_no_constant(text: str) -> None:
    assert constant(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1/0", "divides by zero"),
        ("089", "not a number"),
        ("1%0", "divides by zero"),
        ("(1+2", r"lacks a \)"),
        ("1+", "cut off"),
        ("1 2", "not a constant"),
        ("1?2", "lacks a :"),
        ("1.5 & 1", "float as an integer"),
        ("~1.5", "float as an integer"),
        ("1+(" * 500 + "1", "nested too deeply"),
        ("-" * 5000 + "1", "nested too deeply"),
    ],
)
def test_malformed_expressions(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        constant(text)


def test_in_operands_and_addresses(execute: Callable[..., Any]) -> None:
    out = np.zeros(4, "u4")
    body = """mov.u32 %r1, (3+4)*2; add.u32 %r1, %r1, WARP_SZ-1; mov.f32 %f1, 1.0+0.5;
      st.global.b32 [%d0+4*2-4], %r1; st.global.f32 [%d0 + (2+2)*2], %f1; ret;"""
    execute(body, out, block=(1,))
    assert out.tolist() == [0, 45, 0x3FC0_0000, 0]
    with pytest.raises(UnsupportedError, match="divides by zero"):
        execute("mov.u32 %r1, 1/0; ret;")
