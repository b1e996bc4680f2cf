"""Bit fields, lookups, byte permutations and packed integers against Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Compute = Callable[..., np.ndarray[Any, Any]]
ONES = 0xFFFF_FFFF
EDGE = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x80FF_017F, 0x7FFF_FFFF, 0x8000_0000]
EDGE += [ONES, ONES - 1, 0x1234_5678, 0xFF80_8000]


def signed(value: int, bits: int) -> int:
    value %= 1 << bits
    return value - (1 << bits) if value >> bits - 1 else value


def as_kind(value: int, kind: str) -> int:
    bits = int(kind[1:])
    return signed(value, bits) if kind[0] == "s" else value % (1 << bits)


def columns(count: int, size: int = 1500) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(count)
    some = np.array([*EDGE, *rng.integers(0, 1 << 32, 16)], "u4")
    return [rng.choice(some, size) for _ in range(count)]


def check(compute: Compute, form: str, expected: Callable[..., int], *inputs: Any) -> None:
    places = ", ".join(f"%a{i}" for i in range(len(inputs)))
    got = compute(f"{form} %y, {places};", f"u{inputs[0].itemsize}", *inputs)
    rows = list(zip(*[x.tolist() for x in inputs], strict=True))
    one = 1 << 8 * inputs[0].itemsize
    for g, row in zip(got.tolist(), rows, strict=True):
        assert g == expected(*row) % one, (form, row)


# --- arithmetic -------------------------------------------------------------------------


def saturated(value: int) -> int:
    return min(max(value, -(1 << 31)), (1 << 31) - 1)


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_mad_hi_and_sad(compute: Compute, kind: str) -> None:
    bits = int(kind[1:])
    inputs = [np.array([x * 0x1_0000_0001 % (1 << bits) for x in c.tolist()], f"u{bits // 8}")
              for c in columns(3)]  # fmt: skip
    mad = lambda a, b, c: (as_kind(a, kind) * as_kind(b, kind) >> bits) + c  # noqa: E731
    check(compute, f"mad.hi.{kind}", mad, *inputs)
    sad = lambda a, b, c: abs(as_kind(a, kind) - as_kind(b, kind)) + c  # noqa: E731
    check(compute, f"sad.{kind}", sad, *inputs)


def test_saturating_sums(compute: Compute) -> None:
    a, b, c = columns(3)
    check(compute, "add.sat.s32", lambda x, y: saturated(signed(x, 32) + signed(y, 32)), a, b)
    check(compute, "sub.sat.s32", lambda x, y: saturated(signed(x, 32) - signed(y, 32)), a, b)
    check(
        compute,
        "mad.hi.sat.s32",
        lambda x, y, z: saturated((signed(x, 32) * signed(y, 32) >> 32) + signed(z, 32)),
        *(a, b, c),
    )


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_products_of_24_bits(compute: Compute, kind: str) -> None:
    def low(x: int) -> int:
        return signed(x, 24) if kind == "s32" else x % (1 << 24)

    for half, shift in (("lo", 0), ("hi", 16)):

        def product(x: int, y: int, shift: int = shift) -> int:
            return as_kind(low(x) * low(y) >> shift, kind)

        check(compute, f"mul24.{half}.{kind}", product, *columns(2))
        check(compute, f"mad24.{half}.{kind}", lambda x, y, z, f=product: f(x, y) + z, *columns(3))
    if kind == "s32":
        check(
            compute,
            "mad24.hi.sat.s32",
            lambda x, y, z: saturated(as_kind(low(x) * low(y) >> 16, kind) + signed(z, 32)),
            *columns(3),
        )


@pytest.mark.parametrize("a_kind", ["u32", "s32"])
@pytest.mark.parametrize("b_kind", ["u32", "s32"])
def test_dot_products(compute: Compute, a_kind: str, b_kind: str) -> None:
    def field(word: int, i: int, bits: int, kind: str) -> int:
        return as_kind(word >> i * bits, f"{kind[0]}{bits}")

    def four(x: int, y: int, z: int) -> int:
        return z + sum(field(x, i, 8, a_kind) * field(y, i, 8, b_kind) for i in range(4))

    def two(x: int, y: int, z: int, first: int) -> int:
        return z + sum(field(x, i, 16, a_kind) * field(y, first + i, 8, b_kind) for i in range(2))

    check(compute, f"dp4a.{a_kind}.{b_kind}", four, *columns(3))
    check(compute, f"dp2a.lo.{a_kind}.{b_kind}", lambda x, y, z: two(x, y, z, 0), *columns(3))
    check(compute, f"dp2a.hi.{a_kind}.{b_kind}", lambda x, y, z: two(x, y, z, 2), *columns(3))


@pytest.mark.parametrize("kind", ["u16", "s16"])
def test_pairs_of_16_bits(compute: Compute, kind: str) -> None:
    forms: dict[str, Callable[[int, int], int]] = {
        **{"add": lambda a, b: a + b, "min": min, "max": max},
    }
    if kind == "s16":
        forms["min.relu"] = lambda a, b: max(min(a, b), 0)
        forms["max.relu"] = lambda a, b: max(a, b, 0)
    for name, function in forms.items():

        def both(x: int, y: int, f: Callable[[int, int], int] = function) -> int:
            low = f(as_kind(x, kind), as_kind(y, kind)) % (1 << 16)
            high = f(as_kind(x >> 16, kind), as_kind(y >> 16, kind)) % (1 << 16)
            return high << 16 | low

        check(compute, f"{name}.{kind}x2", both, *columns(2))


def test_min_and_max_with_relu(compute: Compute) -> None:
    for name, function in (("min", min), ("max", max)):
        for form in (f"{name}.relu.s32", f"{name}.s32.relu"):  # nvcc writes the second one
            check(
                compute,
                form,
                lambda x, y, f=function: max(f(signed(x, 32), signed(y, 32)), 0),
                *columns(2),
            )
    a = np.array([0x8000_0005, 0x0001_FFFF], "u4")
    got = compute("max.s16x2.relu %y, %a0, 0xFFFE0003;", "u4", a)
    assert got.tolist() == [0x0000_0005, 0x0001_0003]


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_differences_of_bytes(compute: Compute, kind: str) -> None:
    def sizes(x: int, y: int) -> list[int]:
        fields = [(x >> i & 255, y >> i & 255) for i in (0, 8, 16, 24)]
        return [abs(as_kind(a, f"{kind[0]}8") - as_kind(b, f"{kind[0]}8")) for a, b in fields]

    form = f"vabsdiff4.u32.{kind}.{kind}"
    check(
        compute,
        form,
        lambda x, y, z: sum(size << 8 * i for i, size in enumerate(sizes(x, y))),
        *columns(3),
    )
    check(compute, f"{form}.add", lambda x, y, z: sum(sizes(x, y)) + z, *columns(3))


# --- bits -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bfind(compute: Compute, kind: str) -> None:
    bits = int(kind[1:])
    values = sorted({x << s & ((1 << bits) - 1) for x in EDGE for s in (0, 5, bits - 8)})
    a = np.array(values, f"u{bits // 8}")

    def position(x: int) -> int:
        x = as_kind(x, kind)
        return (~x if x < 0 else x).bit_length() - 1

    got = compute(f"bfind.{kind} %y, %a0;", "u4", a)
    assert got.tolist() == [position(x) % (1 << 32) for x in values]
    got = compute(f"bfind.shiftamt.{kind} %y, %a0;", "u4", a)
    want = [bits - 1 - position(x) if position(x) >= 0 else ONES for x in values]
    assert got.tolist() == want


def test_fns(compute: Compute) -> None:
    rng = np.random.default_rng(0)
    word = rng.choice(np.array(EDGE, "u4"), 2000)
    base = rng.integers(0, 34, 2000).astype("u4")
    count = rng.integers(-9, 10, 2000).astype("i4").view("u4")

    def find(mask: int, first: int, offset: int) -> int:
        offset = signed(offset, 32)
        if offset == 0:
            return first if first < 32 and mask >> first & 1 else ONES
        at, left, step = first, abs(offset) - 1, 1 if offset > 0 else -1
        while 0 <= at < 32:
            if mask >> at & 1:
                if left == 0:
                    return at
                left -= 1
            at += step
        return ONES

    check(compute, "fns.b32", find, word, base, count)


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_bmsk_and_szext(compute: Compute, mode: str) -> None:
    edge = np.array([0, 1, 7, 8, 16, 31, 32, 33, 63, 64, 255, ONES], "u4")
    a, b = (np.ascontiguousarray(x.ravel()) for x in np.meshgrid(edge, edge))

    def mask(x: int, y: int) -> int:  # the ISA's pseudo-code
        low, total = ONES << (x & 31) & ONES, (x & 31) + (y & 31)
        high = ONES << total & ONES
        position, width = mode == "clamp" and x >= 32, mode == "clamp" and y >= 32
        if position:
            low = 0
        if total >= 32 or position or width:
            high = 0
        elif y & 31 == 0:
            high = ONES
        return low & ~high

    check(compute, f"bmsk.{mode}.b32", mask, a, b)
    a, b = (np.ascontiguousarray(x.ravel()) for x in np.meshgrid(np.array(EDGE, "u4"), edge))
    for kind in ("u32", "s32"):

        def extend(x: int, y: int, kind: str = kind) -> int:
            large = y >= 32 and mode == "clamp"
            keep = 0 if large else ONES << (y & 31) & ONES
            negative = bool(y & 31) and not large and kind == "s32" and x >> (y - 1 & 31) & 1
            return x & ~keep | (keep if negative else 0)

        check(compute, f"szext.{mode}.{kind}", extend, a, b)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_cnot(compute: Compute, bits: int) -> None:
    a = np.array([0, 1, 2, (1 << bits) - 1], f"u{bits // 8}")
    assert compute(f"cnot.b{bits} %y, %a0;", f"u{bits // 8}", a).tolist() == [1, 0, 0, 0]


def test_lop3(compute: Compute) -> None:
    a, b, c = columns(3, 200)

    def lookup(x: int, y: int, z: int, table: int) -> int:
        bits = [(x >> i & 1) << 2 | (y >> i & 1) << 1 | z >> i & 1 for i in range(32)]
        return sum((table >> pick & 1) << i for i, pick in enumerate(bits))

    rows = list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    for table in range(0, 256, 5):
        got = compute(f"lop3.b32 %y, %a0, %a1, %a2, {table};", "u4", a, b, c)
        assert got.tolist() == [lookup(*row, table) for row in rows]
    for name, combine in (("or", max), ("and", min)):
        body = f"""setp.gt.u32 %p2, %a2, 500; lop3.{name}.b32 %r5|%p1, %a0, %a1, %a2, 0x80, %p2;
          selp.b32 %y, 1, 0, %p1;"""
        got = compute(body, "u4", a, b, c)
        assert got.tolist() == [combine(int(x & y & z != 0), int(z > 500)) for x, y, z in rows]


PICKS = {  # the ISA's tables, bytes 3 to 0 of the result, by the selector
    "f4e": ["3210", "4321", "5432", "6543"],
    "b4e": ["5670", "6701", "7012", "0123"],
    "rc8": ["0000", "1111", "2222", "3333"],
    "ecl": ["3210", "3211", "3222", "3333"],
    "ecr": ["0000", "1110", "2210", "3210"],
    "rc16": ["1010", "3232", "1010", "3232"],
}


@pytest.mark.parametrize("mode", PICKS)
def test_modes_of_prmt(compute: Compute, mode: str) -> None:
    def permute(x: int, y: int, c: int) -> int:
        data = (y << 32 | x).to_bytes(8, "little")
        return int.from_bytes(bytes(data[int(n)] for n in reversed(PICKS[mode][c & 3])), "little")

    check(compute, f"prmt.b32.{mode}", permute, *columns(3, 300))


@pytest.mark.parametrize(
    "text",
    [
        "lop3.b32 %r1, %r2, %r3, %r4, 256;",
        "lop3.b32 %r1, %r2, %r3, %r4, %r5;",
        "lop3.or.b32 %r1, %r2, %r3, %r4, 1, %p1;",
        "lop3.xor.b32 %r1|%p2, %r2, %r3, %r4, 1, %p1;",
        "prmt.b32.f5e %r1, %r2, %r3, %r4;",
        "bfind.b32 %r1, %r2;",
        "fns.b64 %r1, %d2, %r3, %r4;",
        "bmsk.b32 %r1, %r2, %r3;",
        "dp4a.u16.u32 %r1, %r2, %r3, %r4;",
        "dp2a.u32.u32 %r1, %r2, %r3, %r4;",
        "add.relu.s16x2 %r1, %r2, %r3;",
        "min.relu.u16x2 %r1, %r2, %r3;",
        "mul24.wide.u32 %r1, %r2, %r3;",
        "mad24.lo.sat.s32 %r1, %r2, %r3, %r4;",
        "sad.b32 %r1, %r2, %r3, %r4;",
        "add.sat.u32 %r1, %r2, %r3;",
    ],
)
def test_other_forms_stop(execute: Callable[..., Any], text: str) -> None:
    with pytest.raises(UnsupportedError, match=text.split()[0]):
        execute(text)
