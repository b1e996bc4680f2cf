"""Signs, classes, minima and maxima of all floating types, by the ISA's pseudo-code."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Compute = Callable[..., np.ndarray[Any, Any]]
Samples = Callable[[str, int], np.ndarray[Any, Any]]

WIDTH = {"f16": 2, "bf16": 2, "f32": 4}
CANONICAL = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFF_FFFF}


def better(name: str, a: float, b: float) -> float:
    return (min if name == "min" else max)((a, b), key=lambda x: (x, not math.copysign(1, x) < 0))


def expected(name: str, a: float, b: float, flags: str) -> float:
    negative = (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)
    if ".abs" in flags:
        a, b = abs(a), abs(b)
    if math.isnan(a) or math.isnan(b):
        both = math.isnan(a) and math.isnan(b)
        result = math.nan if both or ".NaN" in flags else b if math.isnan(a) else a
    else:
        result = better(name, a, b)
    return -result if ".xorsign" in flags and negative else result


@pytest.mark.parametrize("kind", WIDTH)
@pytest.mark.parametrize("name", ["min", "max"])
def test_min_and_max(
    compute: Compute, reference: Any, samples: Samples, name: str, kind: str
) -> None:
    a, b = (np.ascontiguousarray(x.ravel()) for x in np.meshgrid(*[samples(kind, 3)] * 2))
    columns = [reference.values(x, kind) for x in (a, b)]
    for ftz, nan, sign in product(("", ".ftz"), ("", ".NaN"), ("", ".xorsign.abs")):
        if ftz and kind == "bf16":
            continue
        flags = ftz + nan + sign
        rows = list(zip(*columns, strict=True))
        if ftz:
            rows = [reference.flushed(kind, *row) for row in rows]
        want = [expected(name, x, y, flags) for x, y in rows]
        got = compute(f"{name}{flags}.{kind} %y, %a0, %a1;", f"u{WIDTH[kind]}", a, b)
        reference.check(reference.values(got, kind), want, *columns)
        nans = [g for g, w in zip(got.tolist(), want, strict=True) if math.isnan(w)]
        assert nans
        assert set(nans) == {CANONICAL[kind]}
        if kind != "f32":
            x, y = (v.astype("u4") | np.roll(v, 1).astype("u4") << 16 for v in (a, b))
            both = compute(f"{name}{flags}.{kind}x2 %y, %a0, %a1;", "u4", x, y)
            np.testing.assert_array_equal(both, got | np.roll(got, 1).astype("u4") << 16)


@pytest.mark.parametrize("name", ["min", "max"])
def test_three_operands(compute: Compute, reference: Any, name: str) -> None:
    edge = np.array([0.0, -0.0, 1.0, -2.0, math.inf, math.nan], "f4")
    a, b, c = (np.ascontiguousarray(x.ravel()) for x in np.meshgrid(edge, edge, edge))
    columns = [x.tolist() for x in (a, b, c)]
    for flags in ("", ".NaN", ".abs", ".NaN.abs"):
        want = [
            expected(name, expected(name, x, y, flags), z, flags)
            for x, y, z in zip(*columns, strict=True)
        ]
        got = compute(f"{name}{flags}.f32 %y, %a0, %a1, %a2;", "f4", a, b, c)
        reference.check(got.tolist(), want, *columns)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_signs_are_bits(compute: Compute, samples: Samples, kind: str) -> None:
    a = samples(kind, 10)
    top = np.array(1 << 8 * a.itemsize - 1, a.dtype)
    result = f"u{a.itemsize}"
    np.testing.assert_array_equal(compute(f"neg.{kind} %y, %a0;", result, a), a ^ top)
    np.testing.assert_array_equal(compute(f"abs.{kind} %y, %a0;", result, a), a & ~top)
    if kind in ("f16", "bf16"):
        pair = a.astype("u4") << 16 | 0x1234
        got = compute(f"neg.{kind}x2 %y, %a0;", "u4", pair)
        np.testing.assert_array_equal(got, (a ^ top).astype("u4") << 16 | 0x9234)
        got = compute(f"abs.{kind}x2 %y, %a0;", "u4", pair)
        np.testing.assert_array_equal(got, (a & ~top).astype("u4") << 16 | 0x1234)


def test_signs_with_flush(compute: Compute) -> None:
    a = np.array([1, 0x8000_0001, 0x0080_0000, 0x7F80_0001], "u4")
    got = compute("neg.ftz.f32 %y, %a0;", "u4", a)
    assert got.tolist() == [0x8000_0000, 0, 0x8080_0000, 0xFF80_0001]
    assert compute("abs.ftz.f32 %y, %a0;", "u4", a).tolist()[:2] == [0, 0]
    assert compute("neg.ftz.f16 %y, %a0;", "u2", np.array([3, 0x400], "u2")).tolist() == [
        0x8000,
        0x8400,
    ]


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_copysign_and_classes(compute: Compute, samples: Samples, kind: str) -> None:
    a = samples(kind, 10)
    b = a[::-1].copy()
    top = np.array(1 << 8 * a.itemsize - 1, a.dtype)
    got = compute(f"copysign.{kind} %y, %a0, %a1;", f"u{a.itemsize}", a, b)
    np.testing.assert_array_equal(got, (a & top) | (b & ~top))
    least = 2.0**-126 if kind == "f32" else 2.0**-1022
    tests: dict[str, Callable[[float], bool]] = {
        "finite": math.isfinite,
        "infinite": math.isinf,
        "number": lambda x: not math.isnan(x),
        "notanumber": math.isnan,
        "normal": lambda x: math.isfinite(x) and (x == 0 or abs(x) >= least),
        "subnormal": lambda x: 0 < abs(x) < least,
    }
    values = a.view(f"f{a.itemsize}").tolist()
    for name, test in tests.items():
        body = f"testp.{name}.{kind} %p1, %a0; selp.b32 %y, 1, 0, %p1;"
        assert compute(body, "u4", a).tolist() == [int(test(x)) for x in values], name


@pytest.mark.parametrize(
    "text",
    [
        "min.NaN.f64 %g1, %g2, %g3;",
        "min.ftz.bf16 %h1, %h2, %h3;",
        "min.xorsign.f16 %h1, %h2, %h3;",
        "max.f16 %h1, %h2, %h3, %h4;",
        "max.abs.f32 %f1, %f2, %f3;",
        "max.xorsign.abs.f32 %f1, %f2, %f3, %f4;",
        "neg.ftz.bf16 %h1, %h2;",
        "abs.ftz.f64 %g1, %g2;",
        "copysign.f16 %h1, %h2, %h3;",
        "testp.zero.f32 %p1, %f1;",
    ],
)
def test_other_forms_stop(execute: Callable[..., Any], text: str) -> None:
    with pytest.raises(UnsupportedError, match=text.split()[0]):
        execute(text)
