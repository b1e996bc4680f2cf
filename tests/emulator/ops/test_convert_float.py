"""cvt between floats, and between them and integers, in every mode against fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Compute = Callable[..., np.ndarray[Any, Any]]
Samples = Callable[[str, int], np.ndarray[Any, Any]]

FLOATS = {"f16": "u2", "bf16": "u2", "f32": "f4", "f64": "f8"}
PRECISION = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
MODES = ["rn", "rz", "rm", "rp"]
WHOLE: dict[str, Callable[[Fraction], int]] = {
    **{"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil},
}


def inputs(samples: Samples, kind: str) -> np.ndarray[Any, Any]:
    bits = samples(kind, 120)
    return bits.view(FLOATS[kind]) if kind in ("f32", "f64") else bits


def narrowed(reference: Any, value: float, kind: str, mode: str) -> float:
    if not math.isfinite(value):
        return value
    result: float = reference.rounded(Fraction(value), kind, mode, reference.negative(value))
    return result


@pytest.mark.parametrize(("to", "kind"), list(product(FLOATS, FLOATS)))
def test_between_floats(
    compute: Compute, reference: Any, samples: Samples, to: str, kind: str
) -> None:
    a = inputs(samples, kind)
    values = reference.values(a, kind)
    narrows = PRECISION[to] < PRECISION[kind] or (kind, to) == ("bf16", "f16")
    for mode in MODES if narrows else [""]:
        for ftz in ("", ".ftz") if "f32" in (kind, to) else ("",):
            for sat in ("", ".sat") if "bf16" not in (kind, to) else ("",):
                want = values
                if ftz and kind == "f32":
                    want = [reference.flushed(kind, x)[0] for x in want]
                if mode:
                    want = [narrowed(reference, x, to, mode) for x in want]
                if ftz and to == "f32":
                    want = [reference.flushed(to, x)[0] for x in want]
                if sat:
                    want = [reference.clamped(x) for x in want]
                form = f"{'.' if mode else ''}{mode}{ftz}{sat}.{to}.{kind}"
                got = compute(f"cvt{form} %y, %a0;", FLOATS[to], a)
                reference.check(reference.values(got, to), want, values)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("mode", WHOLE)
def test_to_integral_floats(
    compute: Compute, reference: Any, samples: Samples, kind: str, mode: str
) -> None:
    a = inputs(samples, kind)
    values = reference.values(a, kind)
    want = [
        math.copysign(float(WHOLE[mode](Fraction(x))), x) if math.isfinite(x) else x for x in values
    ]
    got = compute(f"cvt.{mode}.{kind}.{kind} %y, %a0;", FLOATS[kind], a)
    reference.check(reference.values(got, kind), want, values)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("to", ["s16", "u32", "s64"])
def test_halves_to_integers(
    compute: Compute, reference: Any, samples: Samples, kind: str, to: str
) -> None:
    bits = int(to[1:])
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
    a = inputs(samples, kind)
    for mode, whole in WHOLE.items():
        want = []
        for x in reference.values(a, kind):
            if math.isnan(x):
                want.append(1 << 63 if bits == 64 else 0)
            elif math.isinf(x):
                want.append(most if x > 0 else least)
            else:
                want.append(min(max(whole(Fraction(x)), least), most))
        got = compute(f"cvt.{mode}.{to}.{kind} %y, %a0;", f"u{bits // 8}", a)
        assert got.tolist() == [w % (1 << bits) for w in want]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to", FLOATS)
def test_integers_to_floats(compute: Compute, reference: Any, to: str, mode: str) -> None:
    rng = np.random.default_rng(6)
    edge = [0, 1, 2049, 65519, 65520, 2**24 + 1, 2**53 + 1, 2**63, 2**64 - 1, 2**63 - 1]
    edge += [2**62 + 2**38 + 1, 2**62 + 2**38 - 1, 2**62 + 2**9 + 1]
    shifted = rng.integers(0, 1 << 63, 60, dtype=np.uint64) >> rng.integers(0, 60, 60).astype("u8")
    a = np.concatenate([np.array(edge, "u8"), shifted])
    for kind, dtype in (("u64", "u8"), ("s64", "i8"), ("s32", "i4"), ("u16", "u2")):
        values = a.astype(np.dtype(dtype).str.replace("i", "u")).view(dtype)
        want = [reference.rounded(Fraction(x), to, mode, negative=False) for x in values.tolist()]
        source = values.view(np.dtype(dtype).str.replace("i", "u"))
        got = compute(f"cvt.{mode}.{to}.{kind} %y, %a0;", FLOATS[to], source)
        reference.check(reference.values(got, to), want, values.tolist())
    got = compute("cvt.rn.sat.f32.s32 %y, %a0;", "f4", np.array([5, -5 % 2**32], "u4"))
    assert got.tolist() == [1.0, 0.0]


def test_saturation_between_integers(compute: Compute) -> None:
    kinds = [sign + bits for sign in "us" for bits in ("8", "16", "32", "64")]

    def span(kind: str) -> tuple[int, int]:
        bits = int(kind[1:])
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)

    for to, kind in product(kinds, kinds):
        (low, high), (least, most) = span(kind), span(to)
        if least <= low and high <= most:
            continue
        bits = int(kind[1:])
        values = sorted({low, high, 0, 1, max(low, -1), min(high, 127), min(high, 128), high // 2})
        a = np.array([v % (1 << bits) for v in values], f"u{bits // 8}")
        wide = max(int(to[1:]) // 8, 2)
        got = compute(f"cvt.sat.{to}.{kind} %y, %a0;", f"u{wide}", a)
        assert got.tolist() == [min(max(v, least), most) % (1 << 8 * wide) for v in values]


# --- .relu, .satfinite, tf32, fp8, packed integers --------------------------------------


@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_relu_and_satfinite(
    compute: Compute, reference: Any, samples: Samples, kind: str, mode: str
) -> None:
    a = inputs(samples, "f32")
    most = 65504.0 if kind == "f16" else float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
    for flags in ("", ".relu", ".satfinite", ".relu.satfinite"):
        want = [narrowed(reference, x, kind, mode) for x in a.tolist()]
        if "satfinite" in flags:
            want = [math.copysign(most, x) if abs(x) > most else x for x in want]
        if "relu" in flags:
            want = [0.0 if x <= 0 else x for x in want]
        got = compute(f"cvt.{mode}{flags}.{kind}.f32 %y, %a0;", "u2", a)
        reference.check(reference.values(got, kind), want, a.tolist())
        assert {g for g, w in zip(got.tolist(), want, strict=True) if math.isnan(w)} == {0x7FFF}
        both = compute(f"cvt.{mode}{flags}.{kind}x2.f32 %y, %a0, %a1;", "u4", a, np.roll(a, 1))
        np.testing.assert_array_equal(both, got.astype("u4") << 16 | np.roll(got, 1))


@pytest.mark.parametrize("mode", ["rna", "rn", "rz"])
def test_tf32(compute: Compute, reference: Any, samples: Samples, mode: str) -> None:
    ties = (np.arange(40, dtype="u4") << 12) + np.uint32(0x3F80_0000)
    a = np.concatenate([inputs(samples, "f32"), ties.view("f4"), -ties.view("f4")])
    want = [narrowed(reference, x, "tf32", mode) for x in a.tolist()]
    got = compute(f"cvt.{mode}.tf32.f32 %y, %a0;", "u4", a)
    reference.check(got.view("f4").tolist(), want, a.tolist())
    assert not (got[~np.isnan(a)] & 0x1FFF).any()


@pytest.mark.parametrize(
    ("kind", "dtype", "most"),
    [("e4m3", ml_dtypes.float8_e4m3fn, 448.0), ("e5m2", ml_dtypes.float8_e5m2, 57344.0)],
)
def test_eight_bits(compute: Compute, samples: Samples, kind: str, dtype: Any, most: float) -> None:
    code = np.arange(256, dtype="u2")
    values = code.astype("u1").view(dtype).astype("f4")
    got = compute(f"cvt.rn.f16x2.{kind}x2 %y, %a0;", "u4", code | code[::-1] << 8)
    for half, want in ((got & 0xFFFF, values), (got >> 16, values[::-1])):
        np.testing.assert_array_equal(half.astype("u2").view("f2").astype("f4"), want)
    middles = (values[:-1] + values[1:]) / 2
    near = np.concatenate([values, middles, np.nextafter(middles, np.float32(0))])
    near = near[np.isfinite(near)]
    a = np.concatenate([near, np.array([np.inf, -np.inf, np.nan, 1e9, -1e9, 464.0, 465.0], "f4")])
    with np.errstate(all="ignore"):
        clipped = np.where(np.isnan(a), a, np.clip(a, -most, most))
        want = clipped.astype(dtype).view("u1")
    want = np.where(np.isnan(a), 0x7F, want)
    got = compute(f"cvt.rn.satfinite.{kind}x2.f32 %y, %a0, %a1;", "u2", a, np.roll(a, 1))
    np.testing.assert_array_equal(got >> 8, want)
    np.testing.assert_array_equal(got & 255, np.roll(want, 1))
    relu = compute(f"cvt.rn.satfinite.relu.{kind}x2.f32 %y, %a0, %a1;", "u2", a, a)
    np.testing.assert_array_equal(relu & 255, np.where(a <= 0, 0, want))
    half = samples("f16", 100)
    exact = half.view("f2").astype("f4")
    pair = half.astype("u4") | np.roll(half, 1).astype("u4") << 16
    got = compute(f"cvt.rn.satfinite.{kind}x2.f16x2 %y, %a0;", "u2", pair)
    want = compute(f"cvt.rn.satfinite.{kind}x2.f32 %y, %a0, %a1;", "u2", np.roll(exact, 1), exact)
    np.testing.assert_array_equal(got, want)


def test_packed_integers(compute: Compute) -> None:
    edge = [0, 1, -1, 7, 8, -8, -9, 127, 128, -128, -129, 255, 256, 32767, 40000, -40000, 70000]
    a = np.array([x % 2**32 for x in edge], "u4")
    b, c = np.roll(a, 3), np.arange(a.size, dtype="u4") * np.uint32(0x1357_9BDF)
    low = edge[-3:] + edge[:-3]

    def clip(value: int, kind: str) -> int:
        bits = int(kind[1:])
        least, most = (0, (1 << bits) - 1)
        if kind[0] == "s":
            least, most = -(1 << bits - 1), (1 << bits - 1) - 1
        return min(max(value, least), most) % (1 << bits)

    for kind in ("u16", "s16"):
        got = compute(f"cvt.pack.sat.{kind}.s32 %y, %a0, %a1;", "u4", a, b)
        want = [clip(x, kind) << 16 | clip(y, kind) for x, y in zip(edge, low, strict=True)]
        assert got.tolist() == want
    for kind in ("u2", "s2", "u4", "s4", "u8", "s8"):
        bits = int(kind[1:])
        got = compute(f"cvt.pack.sat.{kind}.s32.b32 %y, %a0, %a1, %a2;", "u4", a, b, c)
        rows = zip(edge, low, c.tolist(), strict=True)
        want = [(z << 2 * bits | clip(x, kind) << bits | clip(y, kind)) % 2**32 for x, y, z in rows]
        assert got.tolist() == want


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cvt.f16.f32 %h1, %f1;", "takes a rounding"),
        ("cvt.rn.f32.f16 %f1, %h1;", "takes no rounding"),
        ("cvt.rn.ftz.f16.f64 %h1, %g1;", "about f32"),
        ("cvt.rni.ftz.f64.f64 %g1, %g2;", "about f32"),
        ("cvt.rn.sat.bf16.f32 %h1, %f1;", "no .sat"),
        ("cvt.rni.sat.bf16.bf16 %h1, %h2;", "no .sat"),
        ("cvt.rn.bf16.u8 %h1, %h2;", "8 bits"),
        ("cvt.rni.s8.bf16 %h1, %h2;", "8 bits"),
        ("cvt.sat.u32.u16 %r1, %h2;", ".sat is not allowed"),
    ],
)
def test_other_forms_stop(execute: Callable[..., Any], text: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        execute(text)
