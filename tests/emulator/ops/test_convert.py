"""cvt against exact arithmetic: roundings, saturation, NaN, ties, packing."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Compute = Callable[..., np.ndarray[Any, Any]]

INF, NAN = math.inf, math.nan
INTEGERS = [sign + bits for sign in "us" for bits in ("8", "16", "32", "64")]


def wrapped(value: int, kind: str) -> int:
    bits = int(kind[1:])
    value %= 1 << bits
    return value - (1 << bits) if kind[0] == "s" and value >> bits - 1 else value


@pytest.mark.parametrize(("to", "kind"), list(product(INTEGERS, INTEGERS)))
def test_integers_wrap_and_extend_by_the_sign_of_their_source(
    compute: Compute, to: str, kind: str
) -> None:
    bits = int(kind[1:])
    edge = [0, 1, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1]
    a = np.array(edge, f"u{max(bits // 8, 1)}")
    wide = np.dtype(f"u{max(int(to[1:]) // 8, 2)}")  # the narrowest register has 16 bits
    got = compute(f"cvt.{to}.{kind} %y, %a0;", wide.str, a)
    want = [wrapped(wrapped(x, kind), to) % (1 << 8 * wide.itemsize) for x in edge]
    assert got.tolist() == want


def test_the_destination_may_be_wider(compute: Compute) -> None:
    a = np.array([0x17F, 0x180, 0xFFFF_FFFF], "u4")
    assert compute("cvt.s8.s32 %y, %a0;", "u4", a).tolist() == [0x7F, 0xFFFF_FF80, 0xFFFF_FFFF]
    assert compute("cvt.u8.u32 %y, %a0;", "u4", a).tolist() == [0x7F, 0x80, 0xFF]
    assert compute("cvt.s64.s16 %y, %a0;", "u8", a).tolist() == [0x17F, 0x180, 2**64 - 1]


def nearest(value: int, bits: int) -> float:
    """The float with `bits` of precision nearest to an integer, ties to even."""
    excess = max(abs(value).bit_length() - bits, 0)
    return float(round(Fraction(value, 1 << excess)) * (1 << excess))


@pytest.mark.parametrize("kind", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_integer_to_float_rounds_to_nearest_even(compute: Compute, kind: str) -> None:
    bits = int(kind[1:])
    values = {0, 1, 3, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1}
    for power in range(24, bits):
        values |= {(1 << power) + d for d in (-1, 0, 1, 3)}
        values |= {(1 << power) + (1 << power - 24) + d for d in (-1, 0, 1)}
    for power in range(53, bits):
        values |= {(1 << power) + (1 << power - 53) + d for d in (-1, 0, 1)}
    a = np.array(sorted(v for v in values if v < 1 << bits), f"u{max(bits // 8, 1)}")
    signed = [wrapped(x, kind) for x in a.tolist()]
    got = compute(f"cvt.rn.f32.{kind} %y, %a0;", "f4", a)
    assert got.tolist() == [nearest(x, 24) for x in signed]
    got = compute(f"cvt.rn.f64.{kind} %y, %a0;", "f8", a)
    assert got.tolist() == [nearest(x, 53) for x in signed]


ROUND: dict[str, Callable[[Fraction], int]] = {
    "rni": round,
    "rzi": math.trunc,
    "rmi": math.floor,
    "rpi": math.ceil,
}


@pytest.mark.parametrize("mode", ROUND)
@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize(("kind", "dtype"), [("f32", "f4"), ("f64", "f8")])
def test_float_to_integer_saturates(
    compute: Compute, mode: str, to: str, kind: str, dtype: str
) -> None:
    bits = int(to[1:])
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
    values = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 0.49999997, 1e-40, 127.5, -128.5, 1e30]
    values += [float(most), float(most) + 1, float(least), float(least) - 1, -1e30, INF, -INF]
    values += [float(np.nextafter(np.array(most + 1, dtype), 0)), 2.0**63, -(2.0**63), 2.0**64]
    a = np.array(values, dtype)
    wide = np.dtype(f"u{max(bits // 8, 2)}")
    got = compute(f"cvt.{mode}.{to}.{kind} %y, %a0;", wide.str, a)

    def expected(value: float) -> int:
        if math.isinf(value):
            return most if value > 0 else least
        return min(max(ROUND[mode](Fraction(value)), least), most)

    assert got.tolist() == [expected(x) % (1 << 8 * wide.itemsize) for x in a.tolist()]


@pytest.mark.parametrize(
    ("form", "dtype", "result", "want"),
    [
        ("s32.f32", "f4", "u4", 0),
        ("u32.f32", "f4", "u4", 0),
        ("s64.f32", "f4", "u8", 1 << 63),
        ("u64.f32", "f4", "u8", 1 << 63),
        ("s32.f64", "f8", "u4", 1 << 31),
        ("u32.f64", "f8", "u4", 1 << 31),
        ("s64.f64", "f8", "u8", 1 << 63),
    ],
)
def test_nan_to_integer(compute: Compute, form: str, dtype: str, result: str, want: int) -> None:
    assert compute(f"cvt.rzi.{form} %y, %a0;", result, np.array([NAN], dtype)) == [want]


def test_round_to_an_integral_float(compute: Compute) -> None:
    a = np.array([0.5, 1.5, -0.5, -2.5, 1e30, INF, 2.25], "f4")
    for mode, function in (
        ("rni", np.rint),
        ("rzi", np.trunc),
        ("rmi", np.floor),
        ("rpi", np.ceil),
    ):
        got = compute(f"cvt.{mode}.f32.f32 %y, %a0;", "f4", a)
        np.testing.assert_array_equal(got.view("u4"), function(a).view("u4"))


def test_between_fp32_and_fp64(compute: Compute) -> None:
    a = np.array([1.0, 1 + 2.0**-24, 1 + 3 * 2.0**-24, 1e-46, 1e39, -INF], "f8")
    got = compute("cvt.rn.f32.f64 %y, %a0;", "f4", a)
    assert got.tolist() == [1.0, 1.0, 1 + 2.0**-22, 0.0, INF, -INF]
    assert compute("cvt.f64.f32 %y, %a0;", "f8", got).tolist() == got.tolist()


# --- 16-bit formats ---------------------------------------------------------------------


def half_bits(value: float, exponent: int, mantissa: int) -> int:
    """A float as bits with so many of exponent and mantissa: exact, ties to even, NaN 0x7FFF."""
    if math.isnan(value):
        return 0x7FFF
    sign = 0x8000 if math.copysign(1, value) < 0 else 0
    bias = (1 << exponent - 1) - 1
    infinity = ((1 << exponent) - 1) << mantissa
    if math.isinf(value):
        return sign | infinity
    size = Fraction(abs(value))
    least = 1 - bias  # the exponent of subnormals and of the smallest normal numbers
    power = least if size == 0 else max(least, math.frexp(abs(value))[1] - 1)
    steps = round(size / Fraction(2) ** (power - mantissa))
    return sign | min(steps + (power - least << mantissa), infinity)


def fp32_samples(mantissa: int) -> np.ndarray[Any, Any]:
    """All kinds of fp32 numbers, dense around the ties of a format with so short a mantissa."""
    rng = np.random.default_rng(3)
    raw = rng.integers(0, 1 << 32, 2000, dtype=np.uint32)
    drop = 23 - mantissa
    ties = (raw[:600] >> drop << drop) + (1 << drop - 1) + rng.integers(-1, 2, 600).astype("i4")
    small = (rng.standard_normal(600) * 2.0 ** rng.integers(-30, -13, 600)).astype("f4")
    steps = rng.integers(0, 4096, 400) * 2.0**-25  # halves of fp16's subnormal step
    special = [0.0, -0.0, 1.0, 65504.0, 65519.9, 65520.0, 3.4e38, -3.4e38, INF, -INF, NAN, 1e-45]
    return np.concatenate(
        [raw.view("f4"), ties.astype("u4").view("f4"), small, np.array([*steps, *special], "f4")]
    )


@pytest.mark.parametrize(("kind", "exponent", "mantissa"), [("bf16", 8, 7), ("f16", 5, 10)])
def test_to_sixteen_bits_rounds_to_nearest_even(
    compute: Compute, kind: str, exponent: int, mantissa: int
) -> None:
    a = fp32_samples(mantissa)
    got = compute(f"cvt.rn.{kind}.f32 %y, %a0;", "u2", a)
    want = [half_bits(x, exponent, mantissa) for x in a.tolist()]
    np.testing.assert_array_equal(got, np.array(want, "u2"))


@pytest.mark.parametrize(("kind", "exponent", "mantissa"), [("bf16", 8, 7), ("f16", 5, 10)])
def test_sixteen_bits_to_fp32_and_back(
    compute: Compute, kind: str, exponent: int, mantissa: int
) -> None:
    a = np.arange(0, 1 << 16, 13, dtype="u2")
    got = compute(f"cvt.f32.{kind} %y, %a0;", "f4", a)
    quiet = np.where(np.isnan(got), np.uint16(0x7FFF), a)
    want = np.array([half_bits(x, exponent, mantissa) for x in got.tolist()], "u2")
    np.testing.assert_array_equal(want, quiet)


def test_bf16_by_hand(compute: Compute) -> None:
    a = np.array([0x3F80_8000, 0x3F81_8000, 0x3F80_8001, 0x7F7F_FFFF, 0x7F80_0001, 0x8000_8000])
    got = compute("cvt.rn.bf16.f32 %y, %a0;", "u2", a.astype("u4").view("f4"))
    assert [hex(x) for x in got.tolist()] == [
        *("0x3f80", "0x3f82", "0x3f81", "0x7f80", "0x7fff", "0x8000")
    ]


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_packed_conversion_puts_the_first_source_on_top(compute: Compute, kind: str) -> None:
    high, low = np.array([1.0, -INF, NAN], "f4"), np.array([2.0, 0.5, -0.0], "f4")
    got = compute(f"cvt.rn.{kind}x2.f32 %y, %a0, %a1;", "u4", high, low)
    upper = compute(f"cvt.rn.{kind}.f32 %y, %a0;", "u2", high)
    lower = compute(f"cvt.rn.{kind}.f32 %y, %a0;", "u2", low)
    np.testing.assert_array_equal(got >> 16, upper)
    np.testing.assert_array_equal(got & 0xFFFF, lower)


@pytest.mark.parametrize(
    "text",
    [
        "cvt.rn.u8.s32 %r1, %r2;",
        "cvt.rna.f32.f64 %f1, %g1;",
        "cvt.rm.satfinite.bf16.f32 %h1, %f1;",
        "cvt.rp.tf32.f32 %r1, %f1;",
        "cvt.f32.s32 %f1, %r1;",
        "cvt.rn.e4m3x2.f32 %h1, %f1, %f2;",
        "cvt.rn.satfinite.e2m1x2.f32 %h1, %f1, %f2;",
        "cvt.rs.f16x2.f32 %r1, %f1, %f2, %r2;",
        "cvt.pack.u8.s32.b32 %r1, %r2, %r3, %r4;",
    ],
)
def test_other_conversions_stop(execute: Callable[..., Any], text: str) -> None:
    with pytest.raises(UnsupportedError, match="does not model this opcode"):
        execute(text)
