"""setp and set of 16-bit floats and pairs, .ftz, set of other types, slct."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Compute = Callable[..., np.ndarray[Any, Any]]
Samples = Callable[[str, int], np.ndarray[Any, Any]]

ORDER: dict[str, Callable[[float, float], bool]] = {
    **{"eq": operator.eq, "ne": operator.ne, "lt": operator.lt},
    **{"le": operator.le, "gt": operator.gt, "ge": operator.ge},
}


def _comparisons() -> dict[str, Callable[[float, float], bool]]:
    def either(a: float, b: float) -> bool:
        return math.isnan(a) or math.isnan(b)

    found: dict[str, Callable[[float, float], bool]] = {
        "nan": either,
        "num": lambda a, b: not either(a, b),
    }
    for name, test in ORDER.items():
        found[name] = lambda a, b, t=test: not either(a, b) and t(a, b)  # type: ignore[misc]
        found[f"{name}u"] = lambda a, b, t=test: either(a, b) or t(a, b)  # type: ignore[misc]
    return found


TESTS = _comparisons()


def pairs(samples: Samples, kind: str) -> list[np.ndarray[Any, Any]]:
    return [np.ascontiguousarray(x.ravel()) for x in np.meshgrid(*[samples(kind, 1)] * 2)]


def doubled(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    words: np.ndarray[Any, Any] = x.astype("u4") | np.roll(x, 1).astype("u4") << 16
    return words


ONE = {"f16": 0x3C00, "bf16": 0x3F80}


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("kind", ONE)
def test_halves(compute: Compute, reference: Any, samples: Samples, kind: str, name: str) -> None:
    a, b = pairs(samples, kind)
    values = list(zip(reference.values(a, kind), reference.values(b, kind), strict=True))
    want = np.array([TESTS[name](x, y) for x, y in values])
    other = np.roll(want, 1)
    got = compute(f"setp.{name}.{kind} %p1, %a0, %a1; selp.b32 %y, 1, 0, %p1;", "u4", a, b)
    np.testing.assert_array_equal(got, want)
    for to, true in ((kind, ONE[kind]), ("u16", 0xFFFF)):
        got = compute(f"set.{name}.{to}.{kind} %y, %a0, %a1;", "u2", a, b)
        np.testing.assert_array_equal(got, np.where(want, true, 0))
    got = compute(f"set.{name}.s32.{kind} %y, %a0, %a1;", "u4", a, b)
    np.testing.assert_array_equal(got, np.where(want, 0xFFFF_FFFF, 0))
    a, b = doubled(a), doubled(b)
    body = f"""setp.{name}.{kind}x2 %p1|%p2, %a0, %a1; selp.b32 %y, 1, 0, %p1;
      selp.b32 %r5, 2, 0, %p2; or.b32 %y, %y, %r5;"""
    np.testing.assert_array_equal(compute(body, "u4", a, b), want + 2 * other)
    body = body.replace(f"{name}.{kind}x2", f"{name}.and.{kind}x2").replace("%a1;", "%a1, !%p3;")
    body = f"setp.ne.u32 %p3, %a2, 0; {body}"
    odd = np.arange(a.size, dtype="u4") & np.uint32(1)
    got = compute(body, "u4", a, b, odd)
    np.testing.assert_array_equal(got, np.where(odd == 0, want + 2 * other, 0))
    for to, true in ((f"{kind}x2", ONE[kind]), ("u32", 0xFFFF)):
        got = compute(f"set.{name}.{to}.{kind}x2 %y, %a0, %a1;", "u4", a, b)
        np.testing.assert_array_equal(got, np.where(want, true, 0) + np.where(other, true << 16, 0))


def test_flush_before_the_comparison(compute: Compute) -> None:
    a = np.array([1e-40, -1e-40, 1e-30], "f4")
    body = "setp.eq{z}.f32 %p1, %a0, 0f00000000; selp.b32 %y, 1, 0, %p1;"
    assert compute(body.format(z=".ftz"), "u4", a).tolist() == [1, 1, 0]
    assert compute(body.format(z=""), "u4", a).tolist() == [0, 0, 0]
    h = np.array([1, 0x8001, 0x400], "u2")
    body = "mov.b16 %h1, 0; setp.eq.ftz.f16 %p1, %a0, %h1; selp.b32 %y, 1, 0, %p1;"
    assert compute(body, "u4", h).tolist() == [1, 1, 0]


def test_set_of_other_types(compute: Compute) -> None:
    a, b = np.array([1, 2, 0xFFFF_FFFF], "u4"), np.array([2, 2, 2], "u4")
    assert compute("set.lt.u32.u32 %y, %a0, %a1;", "u4", a, b).tolist() == [0xFFFF_FFFF, 0, 0]
    assert compute("set.lt.f32.s32 %y, %a0, %a1;", "f4", a, b).tolist() == [1.0, 0.0, 1.0]
    assert compute("set.hi.f16.u32 %y, %a0, %a1;", "u2", a, b).tolist() == [0, 0, 0x3C00]
    body = "setp.eq.u32 %p3, %a0, 2; set.lt.or.s32.u32 %y, %a0, %a1, %p3;"
    assert compute(body, "u4", a, b).tolist() == [0xFFFF_FFFF, 0xFFFF_FFFF, 0]
    x = np.array([1.0, math.nan, 3.0], "f8")
    assert compute("set.geu.bf16.f64 %y, %a0, 0d4000000000000000;", "u2", x).tolist() == [
        0,
        0x3F80,
        0x3F80,
    ]


@pytest.mark.parametrize(("kind", "dtype"), [("b16", "u2"), ("s32", "u4"), ("u64", "u8")])
def test_slct(compute: Compute, kind: str, dtype: str) -> None:
    a, b = np.arange(6, dtype=dtype), np.arange(6, dtype=dtype) + np.array(10, dtype)
    c = np.array([0.0, -0.0, -1.0, math.nan, -1e-40, math.inf], "f4")
    got = compute(f"slct.{kind}.f32 %y, %a0, %a1, %a2;", dtype, a, b, c)
    assert got.tolist() == [0, 1, 12, 13, 14, 5]
    got = compute(f"slct.ftz.{kind}.f32 %y, %a0, %a1, %a2;", dtype, a, b, c)
    assert got.tolist() == [0, 1, 12, 13, 4, 5]
    c = np.array([0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 5], "u4")
    got = compute(f"slct.{kind}.s32 %y, %a0, %a1, %a2;", dtype, a, b, c)
    assert got.tolist() == [0, 1, 2, 13, 14, 5]


@pytest.mark.parametrize(
    "text",
    [
        "setp.lt.ftz.bf16 %p1, %h1, %h2;",
        "setp.lt.f16x2 %p1, %r1, %r2;",
        "setp.lo.f16 %p1, %h1, %h2;",
        "set.lt.u64.u32 %d1, %r1, %r2;",
        "set.lt.f16x2.bf16x2 %r1, %r2, %r3;",
        "set.lt.u16.u32 %h1, %r2, %r3;",
        "set.lt.f32.f16 %f1, %h2, %h3;",
        "slct.ftz.f32.s32 %f1, %f2, %f3, %r1;",
        "slct.f16.f32 %h1, %h2, %h3, %f1;",
        "selp.f16 %h1, %h2, %h3, %p1;",
    ],
)
def test_other_forms_stop(execute: Callable[..., Any], text: str) -> None:
    with pytest.raises(UnsupportedError, match=text.split()[0]):
        execute(text)
