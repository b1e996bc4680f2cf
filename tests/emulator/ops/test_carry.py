"""Carries and borrows against Python's integers; lanes that are off keep their flag."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Compute = Callable[..., np.ndarray[Any, Any]]
FLAG = "mov.u32 %r7, 0; addc.u32 %r7, %r7, 0;"  # CC.CF


def triples(bits: int) -> list[np.ndarray[Any, Any]]:
    edge = [0, 1, 2, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 2, (1 << bits) - 1, 12345]
    return [np.array(x, f"u{bits // 8}") for x in zip(*product(edge, edge, edge), strict=True)]


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_flags(compute: Compute, kind: str) -> None:
    bits = int(kind[1:])
    columns = triples(bits)
    rows = list(zip(*[c.tolist() for c in columns], strict=True))
    result, one = f"u{bits // 8}", 1 << bits

    def signed(x: int) -> int:
        return x - one if kind[0] == "s" and x >> bits - 1 else x

    def high(x: int, y: int) -> int:
        return (signed(x) * signed(y) >> bits) % one

    forms: dict[str, Callable[[int, int, int], int]] = {
        "add.cc.{k} %y, %a0, %a1; addc.{k} %y, %a2, 0;": lambda x, y, z: z + (x + y >= one),
        "sub.cc.{k} %y, %a0, %a1; subc.{k} %y, %a2, 0;": lambda x, y, z: z - (x < y),
        "add.cc.{k} %y, %a0, %a1; addc.cc.{k} %y, %a2, %a0; addc.{k} %y, 0, 0;": (
            lambda x, y, z: int(z + x + (x + y >= one) >= one)
        ),
        "sub.cc.{k} %y, %a0, %a1; subc.cc.{k} %y, %a2, %a0; subc.{k} %y, 0, 0;": (
            lambda x, y, z: -int(z < x + (x < y))
        ),
        "mad.lo.cc.{k} %y, %a0, %a1, %a2; madc.hi.{k} %y, %a0, %a1, %a2;": (
            lambda x, y, z: high(x, y) + z + (x * y % one + z >= one)
        ),
        "mad.hi.cc.{k} %y, %a0, %a1, %a2; madc.lo.cc.{k} %y, %a0, %a1, %y; addc.{k} %y, %y, 0;": (
            lambda x, y, z: chained(x, y, z)
        ),
    }

    def chained(x: int, y: int, z: int) -> int:
        first = high(x, y) + z
        second = x * y % one + first % one + first // one
        return second % one + second // one

    for body, function in forms.items():
        got = compute(body.format(k=kind), result, *columns)
        assert got.tolist() == [function(*row) % one for row in rows], body


def test_sums_of_128_bits(compute: Compute) -> None:
    rng = np.random.default_rng(0)
    a, b, c, d = (rng.integers(0, 1 << 64, 50, dtype=np.uint64) for _ in range(4))
    got = compute("add.cc.u64 %d9, %a0, %a1; addc.u64 %y, %a2, %a3;", "u8", a, b, c, d)
    rows = zip(*[x.tolist() for x in (a, b, c, d)], strict=True)
    assert got.tolist() == [((z << 64 | x) + (w << 64 | y) >> 64) % 2**64 for x, y, z, w in rows]


def test_the_flag_starts_at_zero_and_stays_where_a_lane_is_off(compute: Compute) -> None:
    a = np.array([0, 1, 2, 3], "u4")
    assert compute(f"{FLAG} mov.u32 %y, %r7;", "u4", a).tolist() == [0, 0, 0, 0]
    body = f"""add.cc.u32 %r7, -1, %a0; setp.lt.u32 %p1, %a0, 2;
      @%p1 sub.cc.u32 %r7, 1, 1; @!%p1 add.u32 %r7, %r7, 1; {FLAG} mov.u32 %y, %r7;"""
    assert compute(body, "u4", a).tolist() == [1, 1, 1, 1]
    body = body.replace("sub.cc.u32 %r7, 1, 1", "sub.cc.u32 %r7, 0, 1")
    assert compute(body, "u4", a).tolist() == [0, 0, 1, 1]


def test_sums_and_differences_share_the_flag(compute: Compute) -> None:
    """What an H200 answered, 2026-11-30: a subtraction leaves 1 where it borrowed nothing."""
    a = np.array([5, 7], "u4")
    for body, want in {
        "sub.cc.u32 %r7, %a0, 6; addc.u32 %y, 0, 0;": [0, 1],
        "add.cc.u32 %r7, %a0, -6; subc.u32 %y, 9, 3;": [5, 6],
        "sub.cc.u32 %r7, %a0, 6; subc.u32 %y, 0, 0;": [2**32 - 1, 0],
        "subc.u32 %y, 9, 3;": [5, 5],  # the flag is 0 at the start
    }.items():
        assert compute(body, "u4", a).tolist() == want, body


@pytest.mark.parametrize(
    "text",
    [
        "add.cc.u16 %h1, %h2, %h3;",
        "addc.u16 %h1, %h2, %h3;",
        "addc.sat.s32 %r1, %r2, %r3;",
        "mad.wide.cc.u32 %d1, %r2, %r3, %d4;",
        "madc.u32 %r1, %r2, %r3, %r4;",
        "subc.u32 %r1, %r2;",
        "mov.u32 %r1, %cc;",
    ],
)
def test_other_forms_stop(execute: Callable[..., Any], text: str) -> None:
    with pytest.raises(UnsupportedError, match=text.split()[0]):
        execute(text)
