"""mov, also packing and unpacking, and cvta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Compute = Callable[..., np.ndarray[Any, Any]]
Execute = Callable[..., Any]


def test_mov_keeps_every_bit(compute: Compute) -> None:
    a = np.array([0x7F80_0001, 0xFFC0_1234, 0x8000_0000, 1], "u4")
    for form in ("mov.b32 %y, %a0;", "mov.f32 %f1, %a0; mov.b32 %y, %f1;", "mov.u32 %y, %a0;"):
        np.testing.assert_array_equal(compute(form, "u4", a), a)


def test_the_first_part_of_a_vector_is_the_lowest(compute: Compute) -> None:
    a, b = np.array([0x1122], "u2"), np.array([0x3344], "u2")
    assert compute("mov.b32 %y, {%a0, %a1};", "u4", a, b) == [0x3344_1122]
    wide = np.array([0x8877_6655_4433_2211], "u8")
    assert compute("mov.b64 {%r5, %r6}, %a0; mov.b32 %y, %r6;", "u4", wide) == [0x8877_6655]
    assert compute("mov.b64 {_, %r6}, %a0; mov.b32 %y, %r6;", "u4", wide) == [0x8877_6655]
    body = "mov.b64 {%h1, %h2, %h3, %h4}, %a0; mov.b64 %y, {%h4, %h3, %h2, %h1};"
    assert compute(body, "u8", wide) == [0x2211_4433_6655_8877]
    f = np.array([1.0], "f4")
    assert compute("mov.b64 %y, {%a0, 0};", "u8", f) == [0x3F80_0000]


def test_swapping_through_one_register(compute: Compute) -> None:
    wide = np.array([0x1111_2222], "u4")
    body = "mov.b32 %y, %a0; mov.b32 {%h1, %h2}, %y; mov.b32 %y, {%h2, %h1};"
    assert compute(body, "u4", wide) == [0x2222_1111]


def test_mov_takes_addresses(execute: Execute) -> None:
    out = np.zeros(32, "u4")
    body = """
      .shared .align 16 .b8 pad[48]; .shared .align 16 .b8 s[256];
      mov.u32 %r5, s; add.u32 %r5, %r5, %r99; mov.b64 %d5, s+16; cvt.u32.u64 %r6, %d5;
      mov.u32 %r7, pad; st.shared.u8 [pad+47], %r7;
      sub.u32 %r5, %r5, %r6; add.s64 %d0, %d0, %d99; st.global.u32 [%d0], %r5; ret;
    """
    assert execute(body, out).findings == []
    assert out.tolist() == [(lane - 16) % 2**32 for lane in range(32)]


def test_generic_addresses_lead_back_to_their_space(execute: Execute) -> None:
    out = np.zeros(2, "u4")
    body = """
      .shared .b32 s;
      cvta.to.global.u64 %d1, %d0; cvta.global.u64 %d2, %d1; cvta.to.global.u64 %d2, %d2;
      mov.u64 %d3, s; cvta.shared.u64 %d4, %d3; cvta.to.shared.u64 %d5, %d4;
      st.shared.u32 [%d5], 7; ld.shared.u32 %r1, [s];
      setp.eq.u64 %p1, %d4, %d3; selp.b32 %r2, 1, 0, %p1;
      st.global.v2.u32 [%d2], {%r1, %r2}; ret;
    """
    assert execute(body, out, block=(1,)).findings == []
    assert out.tolist() == [7, 0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mov.b32 {%h1, %h2, %h3}, %r1;", "3 parts"),
        ("mov.pred {%p1, %p2}, %p3;", "no parts"),
        ("mov.pred %p1, {%p2, %p3};", "no parts"),
        ("mov.f32 {%h1, %h2}, %f1;", "2 parts"),
        ("mov.b64 {%r1, %r2}, %r3;", "%r3 is a .b32 register"),
        ("mov.u32 %r1, %nothing;", "%nothing is not declared"),
        ("mov.u64 %d1, %clock;", "%clock is read as .u32"),
        ("add.u32 %r1, %r1, %clock;", "special register %clock is not modelled"),
        ("mov.f32 %f1, 1;", "the integer 1 stands where a float is wanted"),
        ("mov.b32 %r1, 0d3FF0000000000000;", "a float of 8 bytes"),
        ("mov.u32 5, %r1;", "not a destination"),
        ("mov.u32 %r1, !%r2;", "not a predicate"),
        ("mov.u32 %r1, %r2, %r3;", "not understood"),
        ("mov.u32 %r1;", "not understood"),
        ("mov.u32;", "not understood"),
    ],
)
def test_what_cannot_be_moved_stops(execute: Execute, text: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        execute(text)
