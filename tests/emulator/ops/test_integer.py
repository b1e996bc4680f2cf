"""Integer and logic instructions against Python's integers, over edge values."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

Compute = Callable[..., np.ndarray[Any, Any]]


def edges(kind: str) -> np.ndarray[Any, Any]:
    bits = int(kind[1:])
    values = {0, 1, 2, 3, 5, 7, 0x55, (1 << bits // 2) - 1, 1 << bits // 2, (1 << bits // 2) + 1}
    values |= {(1 << bits - 1) - 1, 1 << bits - 1, (1 << bits - 1) + 1, (1 << bits) - 2}
    values |= {(1 << bits) - 1, 0xA5A5_5A5A_1234_FEDC & ((1 << bits) - 1)}
    return np.array(sorted(values), f"u{bits // 8}")


def pairs(kind: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    a, b = np.meshgrid(edges(kind), edges(kind))
    return a.ravel(), b.ravel()


def as_kind(value: int, kind: str) -> int:
    bits = int(kind[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> bits - 1 else value


def check(got: np.ndarray[Any, Any], expected: list[int]) -> None:
    bits = 8 * got.itemsize
    np.testing.assert_array_equal(got, np.array([e % (1 << bits) for e in expected], got.dtype))


KINDS = ["u16", "s16", "u32", "s32", "u64", "s64"]


def quotient(a: int, b: int) -> int:
    """Towards zero; all bits set for a division by zero."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


TWO: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, bits: a + b,
    "sub": lambda a, b, bits: a - b,
    "mul.lo": lambda a, b, bits: a * b,
    "mul.hi": lambda a, b, bits: a * b >> bits,
    "div": lambda a, b, bits: quotient(a, b),
    "rem": lambda a, b, bits: a - quotient(a, b) * b,
    "min": lambda a, b, bits: min(a, b),
    "max": lambda a, b, bits: max(a, b),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TWO)
def test_two_operands(compute: Compute, name: str, kind: str) -> None:
    a, b = pairs(kind)
    got = compute(f"{name}.{kind} %y, %a0, %a1;", f"u{int(kind[1:]) // 8}", a, b)
    bits = int(kind[1:])
    check(
        got,
        [
            TWO[name](as_kind(x, kind), as_kind(y, kind), bits)
            for x, y in zip(a.tolist(), b.tolist(), strict=True)
        ],
    )


def test_the_least_number_by_minus_one_wraps(compute: Compute) -> None:
    least, minus = np.array([1 << 31], "u4"), np.array([0xFFFF_FFFF], "u4")
    assert compute("div.s32 %y, %a0, %a1;", "u4", least, minus) == [1 << 31]
    assert compute("rem.s32 %y, %a0, %a1;", "u4", least, minus) == [0]


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32"])
def test_wide_products(compute: Compute, kind: str) -> None:
    a, b = pairs(kind)
    wide = f"u{int(kind[1:]) // 4}"
    c = (np.arange(a.size, dtype=wide) << np.array(11, wide)) + np.array(7, wide)
    want = [
        as_kind(x, kind) * as_kind(y, kind) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    check(compute(f"mul.wide.{kind} %y, %a0, %a1;", wide, a, b), want)
    got = compute(f"mad.wide.{kind} %y, %a0, %a1, %a2;", wide, a, b, c)
    check(got, [p + z for p, z in zip(want, c.tolist(), strict=True)])


@pytest.mark.parametrize("kind", KINDS)
def test_mad_lo(compute: Compute, kind: str) -> None:
    a, b = pairs(kind)
    c = b[::-1].copy()
    got = compute(f"mad.lo.{kind} %y, %a0, %a1, %a2;", f"u{a.itemsize}", a, b, c)
    check(got, [x * y + z for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)])


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_neg_and_abs(compute: Compute, kind: str) -> None:
    a = edges(kind)
    signed = [as_kind(x, kind) for x in a.tolist()]
    check(compute(f"neg.{kind} %y, %a0;", f"u{a.itemsize}", a), [-x for x in signed])
    check(compute(f"abs.{kind} %y, %a0;", f"u{a.itemsize}", a), [abs(x) for x in signed])


LOGIC: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
def test_logic(compute: Compute, kind: str) -> None:
    a, b = pairs(kind)
    for name, function in LOGIC.items():
        got = compute(f"{name}.{kind} %y, %a0, %a1;", f"u{a.itemsize}", a, b)
        check(got, [function(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)])
    check(compute(f"not.{kind} %y, %a0;", f"u{a.itemsize}", a), [~x for x in a.tolist()])


def test_logic_of_predicates(compute: Compute) -> None:
    a, b = (np.array(column, "u4") for column in zip(*product((0, 1), (0, 1)), strict=True))
    head = "setp.ne.u32 %p1, %a0, 0; setp.ne.u32 %p2, %a1, 0;"
    tail = "selp.b32 %y, 1, 0, %p3;"
    for name, function in LOGIC.items():
        got = compute(f"{head} {name}.pred %p3, %p1, %p2; {tail}", "u4", a, b)
        check(got, [function(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)])
    check(compute(f"{head} not.pred %p3, %p1; {tail}", "u4", a, b), (1 - a).tolist())
    check(compute(f"{head} mov.pred %p3, !%p1; {tail}", "u4", a, b), (1 - a).tolist())


@pytest.mark.parametrize("name", ["shl.b", "shr.u", "shr.s", "shr.b"])
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_also_beyond_the_width(compute: Compute, name: str, bits: int) -> None:
    amounts = [0, 1, bits // 2, bits - 1, bits, bits + 1, 255, 256, 2**31, 2**32 - 1]
    a, n = (x.ravel() for x in np.meshgrid(edges(f"u{bits}"), np.array(amounts, "u4")))
    got = compute(f"{name}{bits} %y, %a0, %a1;", f"u{bits // 8}", a, n)
    sign = "s" if name == "shr.s" else "u"
    rows = [(as_kind(x, f"{sign}{bits}"), y) for x, y in zip(a.tolist(), n.tolist(), strict=True)]
    if name == "shl.b":
        check(got, [x << min(y, bits) for x, y in rows])
    else:
        check(got, [x >> min(y, bits) for x, y in rows])


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shifts(compute: Compute, mode: str) -> None:
    amounts = np.array([0, 1, 8, 31, 32, 33, 63, 64, 2**32 - 1], "u4")
    low, n = (x.ravel() for x in np.meshgrid(edges("u32"), amounts))
    high = low[::-1].copy()
    left = compute(f"shf.l.{mode}.b32 %y, %a0, %a1, %a2;", "u4", low, high, n)
    right = compute(f"shf.r.{mode}.b32 %y, %a0, %a1, %a2;", "u4", low, high, n)
    rows = [
        (h << 32 | x, y & 31 if mode == "wrap" else min(y, 32))
        for x, h, y in zip(low.tolist(), high.tolist(), n.tolist(), strict=True)
    ]
    check(left, [(pair << y) >> 32 for pair, y in rows])
    check(right, [pair >> y for pair, y in rows])


def fields(bits: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    edge = np.array([0, 1, 4, bits // 2, bits - 4, bits - 1, bits, bits + 1, 255, 256, 260], "u4")
    a, at, length = np.meshgrid(edges(f"u{bits}")[::3], edge, edge)
    return a.ravel(), at.ravel(), length.ravel()


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bfe_bit_by_bit(compute: Compute, kind: str) -> None:
    bits = int(kind[1:])
    a, at, length = fields(bits)

    def expected(value: int, b: int, c: int) -> int:
        pos, count = b & 255, c & 255
        sign = 0
        if kind[0] == "s" and count:
            sign = value >> min(pos + count - 1, bits - 1) & 1
        result = 0
        for i in range(bits):
            inside = i < count and pos + i <= bits - 1
            result |= (value >> pos + i & 1 if inside else sign) << i
        return result

    got = compute(f"bfe.{kind} %y, %a0, %a1, %a2;", f"u{bits // 8}", a, at, length)
    rows = zip(a.tolist(), at.tolist(), length.tolist(), strict=True)
    check(got, [expected(*row) for row in rows])


@pytest.mark.parametrize("bits", [32, 64])
def test_bfi_bit_by_bit(compute: Compute, bits: int) -> None:
    a, at, length = fields(bits)
    into = a[::-1].copy()

    def expected(field: int, base: int, c: int, d: int) -> int:
        pos, count, result = c & 255, d & 255, base
        for i in range(count):
            if pos + i < bits:
                result = result & ~(1 << pos + i) | (field >> i & 1) << pos + i
        return result

    got = compute(f"bfi.b{bits} %y, %a0, %a1, %a2, %a3;", f"u{bits // 8}", a, into, at, length)
    rows = zip(a.tolist(), into.tolist(), at.tolist(), length.tolist(), strict=True)
    check(got, [expected(*row) for row in rows])


@pytest.mark.parametrize("bits", [32, 64])
def test_popc_clz_brev(compute: Compute, bits: int) -> None:
    a = edges(f"u{bits}")
    check(compute(f"popc.b{bits} %y, %a0;", "u4", a), [x.bit_count() for x in a.tolist()])
    check(compute(f"clz.b{bits} %y, %a0;", "u4", a), [bits - x.bit_length() for x in a.tolist()])
    got = compute(f"brev.b{bits} %y, %a0;", f"u{bits // 8}", a)
    check(got, [int(format(x, f"0{bits}b")[::-1], 2) for x in a.tolist()])


def test_prmt_picks_bytes_and_spreads_signs(compute: Compute) -> None:
    control = np.array([0x3210, 0x7654, 0x0123, 0x4567, 0xFEDC, 0xBA98, 0x8F0C, 0xFFFF_1357], "u4")
    a = np.full(control.size, 0x80FF_017F, "u4")
    b = np.full(control.size, 0x12_34_85_C6, "u4")

    def expected(x: int, y: int, c: int) -> int:
        data = (y << 32 | x).to_bytes(8, "little")
        result = 0
        for lane in range(4):
            pick = c >> 4 * lane & 15
            byte = data[pick & 7]
            result |= ((255 if byte & 128 else 0) if pick & 8 else byte) << 8 * lane
        return result

    got = compute("prmt.b32 %y, %a0, %a1, %a2;", "u4", a, b, control)
    rows = zip(a.tolist(), b.tolist(), control.tolist(), strict=True)
    check(got, [expected(*row) for row in rows])


def test_immediates_are_taken_in_the_type_of_the_instruction(compute: Compute) -> None:
    a = np.array([5], "u4")
    for literal, value in {
        "-8": -8,
        "0x10": 16,
        "0b101": 5,
        "017": 15,
        "7U": 7,
        "0xFFFFFFFFU": -1,
        "WARP_SZ": 32,
    }.items():
        check(compute(f"add.s32 %y, %a0, {literal};", "u4", a), [5 + value])
    wide = np.array([1 << 40], "u8")
    check(compute("add.s64 %y, %a0, -1;", "u8", wide), [(1 << 40) - 1])
