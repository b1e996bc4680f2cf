"""setp and selp against Python's comparisons, with NaN and with two destinations."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Compute = Callable[..., np.ndarray[Any, Any]]

ORDER: dict[str, Callable[[Any, Any], bool]] = {
    **{"eq": operator.eq, "ne": operator.ne, "lt": operator.lt},
    **{"le": operator.le, "gt": operator.gt, "ge": operator.ge},
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
FLAG = "selp.b32 %y, 1, 0, %p1;"


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
def test_integers(compute: Compute, kind: str) -> None:
    bits = int(kind[1:])
    edge = [0, 1, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1]
    a, b = (x.ravel() for x in np.meshgrid(*[np.array(edge, f"u{bits // 8}")] * 2))
    signed = f"{'i' if kind[0] == 's' else 'u'}{bits // 8}"
    rows = list(zip(a.view(signed).tolist(), b.view(signed).tolist(), strict=True))
    tests = {name: name for name in ORDER} | (UNSIGNED if kind[0] == "u" else {})
    for name, meaning in tests.items():
        got = compute(f"setp.{name}.{kind} %p1, %a0, %a1; {FLAG}", "u4", a, b)
        assert got.tolist() == [int(ORDER[meaning](x, y)) for x, y in rows], name


@pytest.mark.parametrize(("kind", "dtype"), [("f32", "f4"), ("f64", "f8")])
def test_floats_ordered_and_unordered(compute: Compute, kind: str, dtype: str) -> None:
    edge = np.array([-math.inf, -1, -0.0, 0.0, 1, math.inf, math.nan], dtype)
    a, b = (x.ravel() for x in np.meshgrid(edge, edge))
    rows = list(zip(a.tolist(), b.tolist(), strict=True))
    for name, test in ORDER.items():
        for suffix, with_nan in (("", False), ("u", True)):
            got = compute(f"setp.{name}{suffix}.{kind} %p1, %a0, %a1; {FLAG}", "u4", a, b)
            nan = [math.isnan(x) or math.isnan(y) for x, y in rows]
            want = [with_nan if n else test(x, y) for n, (x, y) in zip(nan, rows, strict=True)]
            assert got.tolist() == list(map(int, want)), name + suffix
    nan = [math.isnan(x) or math.isnan(y) for x, y in rows]
    assert compute(f"setp.nan.{kind} %p1, %a0, %a1; {FLAG}", "u4", a, b).tolist() == nan
    got = compute(f"setp.num.{kind} %p1, %a0, %a1; {FLAG}", "u4", a, b)
    assert got.tolist() == [not n for n in nan]


def test_combined_with_a_predicate_and_two_destinations(compute: Compute) -> None:
    a, b, c = (x.ravel() for x in np.meshgrid(*[np.array([0, 1], "u4")] * 3))
    combine = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
    for name, function in combine.items():
        body = (
            f"setp.ne.u32 %p3, %a2, 0; setp.lt.{name}.u32 %p1|%p2, %a0, %a1, !%p3;"
            "selp.b32 %r5, 1, 0, %p1; selp.b32 %r6, 2, 0, %p2; or.b32 %y, %r5, %r6;"
        )
        rows = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
        want = [
            int(function(x < y, not z)) | 2 * int(function(not x < y, not z)) for x, y, z in rows
        ]
        assert compute(body, "u4", a, b, c).tolist() == want


def test_two_destinations_without_a_combination(compute: Compute) -> None:
    a = np.array([1, 5], "u4")
    body = "setp.lt.u32 %p1|%p2, %a0, 3; selp.b32 %r5, 1, 0, %p1; selp.b32 %y, 2, %r5, %p2;"
    assert compute(body, "u4", a).tolist() == [1, 2]
    assert compute("setp.lt.u32 _|%p1, %a0, 3;" + FLAG, "u4", a).tolist() == [0, 1]


@pytest.mark.parametrize(("kind", "dtype"), [("b16", "u2"), ("s32", "u4"), ("u64", "u8")])
def test_selp(compute: Compute, kind: str, dtype: str) -> None:
    a, b = np.array([1, 2, 3], dtype), np.array([7, 8, 9], dtype)
    p = np.array([0, 1, 0], "u4")
    body = f"setp.ne.u32 %p1, %a2, 0; selp.{kind} %y, %a0, %a1, %p1;"
    assert compute(body, dtype, a, b, p).tolist() == [7, 2, 9]


def test_selp_keeps_the_payload_of_a_nan(compute: Compute) -> None:
    a = np.array([0x7F80_0001, 0xFFC1_2345], "u4").view("f4")
    body = "setp.ne.u32 %p1, %r0, 7; selp.f32 %y, %a0, 0f00000000, %p1;"
    assert compute(body, "f4", a).view("u4").tolist() == [0x7F80_0001, 0xFFC1_2345]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("setp.lo.s32 %p1, %r1, %r2;", "does not compare .s32"),
        ("setp.ltu.u32 %p1, %r1, %r2;", "does not compare .u32"),
        ("setp.xx.u32 %p1, %r1, %r2;", "does not compare .u32"),
        ("setp.lt.ftz.f64 %p1, %g1, %g2;", "does not model this opcode"),
        ("setp.lt.and.u32 %p1, %r1, %r2;", "a predicate goes with .and"),
        ("setp.lt.u32 %p1, %r1, %r2, %p2;", "not understood"),
        ("setp.lt.u32 %p1, %r1;", "not understood"),
        ("setp.lt.u32 %r1, %r1, %r2;", "%r1 is a .b32 register"),
        ("selp.b32 %r1, %r2, %r3, %r4;", "%r4 is a .b32 register"),
    ],
)
def test_what_is_no_comparison_stops(execute: Callable[..., Any], text: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        execute(text)
