"""fp32, fp64 and 16-bit arithmetic in every rounding mode against fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Compute = Callable[..., np.ndarray[Any, Any]]
Samples = Callable[[str, int], np.ndarray[Any, Any]]

MODES = ["rn", "rz", "rm", "rp"]
WIDE = {"f32": "f4", "f64": "f8"}


def operands(samples: Samples, kind: str, sources: int, count: int) -> list[Any]:
    """All pairs of a few samples, or many random triples, half of them with cancellation."""
    if sources < 3:
        grid = np.meshgrid(*[samples(kind, count)] * sources)
        return [np.ascontiguousarray(x.ravel()) for x in grid]
    rng = np.random.default_rng(4)
    some = samples(kind, 200)
    return [rng.choice(some, 1500) for _ in range(sources)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize(("name", "sources"), [("add", 2), ("sub", 2), ("mul", 2), ("div", 2)])
def test_two_operands(
    compute: Compute,
    reference: Any,
    samples: Samples,
    name: str,
    sources: int,
    kind: str,
    mode: str,
) -> None:
    x = [a.view(WIDE[kind]) for a in operands(samples, kind, sources, 5)]
    got = compute(f"{name}.{mode}.{kind} %y, %a0, %a1;", WIDE[kind], *x)
    columns = [a.tolist() for a in x]
    want = [reference.operate(name, mode, kind, *row) for row in zip(*columns, strict=True)]
    reference.check(got.tolist(), want, *columns)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("name", ["fma", "mad"])
def test_fma(
    compute: Compute, reference: Any, samples: Samples, name: str, kind: str, mode: str
) -> None:
    a, b, c = (x.view(WIDE[kind]) for x in operands(samples, kind, 3, 0))
    with np.errstate(all="ignore"):
        c[::3] = (-a * b)[::3]  # what is left is the error of the product
        c[1::3] = (a * b * 2.0 ** np.random.default_rng(1).integers(-60, 60, a.size))[1::3]
    got = compute(f"{name}.{mode}.{kind} %y, %a0, %a1, %a2;", WIDE[kind], a, b, c)
    columns = [x.tolist() for x in (a, b, c)]
    want = [reference.operate("fma", mode, kind, *row) for row in zip(*columns, strict=True)]
    reference.check(got.tolist(), want, *columns)


def test_fma_where_rounding_to_fp64_first_ends_on_a_tie(compute: Compute) -> None:
    a = np.array([1 + 2.0**-12, 1 + 2.0**-12], "f4")
    c = np.array([2.0**-60, -(2.0**-60)], "f4")
    b = np.array([1 + 2.0**-12, 1 + 2.0**-12], "f4")  # a·b = 1 + 2**-11 + 2**-24: a tie of fp32
    got = compute("fma.rn.f32 %y, %a0, %a1, %a2;", "f4", a, b, c)
    assert got.tolist() == [1 + 2.0**-11 + 2.0**-23, 1 + 2.0**-11]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", WIDE)
def test_roots_and_reciprocals(
    compute: Compute, reference: Any, samples: Samples, kind: str, mode: str
) -> None:
    x = samples(kind, 200).view(WIDE[kind])
    got = compute(f"sqrt.{mode}.{kind} %y, %a0;", WIDE[kind], x)
    reference.check(got.tolist(), [reference.root(mode, kind, v) for v in x.tolist()], x.tolist())
    got = compute(f"rcp.{mode}.{kind} %y, %a0;", WIDE[kind], x)
    want = [reference.operate("div", mode, kind, 1.0, v) for v in x.tolist()]
    reference.check(got.tolist(), want, x.tolist())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("flags"), [".ftz", ".sat", ".ftz.sat"])
@pytest.mark.parametrize(("name", "sources"), [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)])
def test_flush_and_saturation_of_fp32(
    compute: Compute,
    reference: Any,
    samples: Samples,
    name: str,
    sources: int,
    flags: str,
    mode: str,
) -> None:
    x = [a.view("f4") for a in operands(samples, "f32", sources, 4)]
    places = ", ".join(f"%a{i}" for i in range(sources))
    got = compute(f"{name}.{mode}{flags}.f32 %y, {places};", "f4", *x)
    columns = [a.tolist() for a in x]
    want = []
    for row in zip(*columns, strict=True):
        if ".ftz" in flags:
            row = reference.flushed("f32", *row)
        result = reference.operate(name, mode, "f32", *row)
        if ".ftz" in flags:
            (result,) = reference.flushed("f32", result)
        want.append(reference.clamped(result) if ".sat" in flags else result)
    reference.check(got.tolist(), want, *columns)


def test_flush_of_quotients_and_roots(compute: Compute, samples: Samples) -> None:
    x = samples("f32", 30).view("f4")
    flat = np.where(np.abs(x) < 2.0**-126, np.copysign(0, x), x).astype("f4")
    for name in ("sqrt", "rcp"):
        got = compute(f"{name}.rn.ftz.f32 %y, %a0;", "f4", x)
        want = compute(f"{name}.rn.f32 %y, %a0;", "f4", flat)
        want = np.where(np.abs(want) < 2.0**-126, np.copysign(0, want), want)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    got = compute("div.rz.ftz.f32 %y, %a0, %a1;", "f4", x, x)
    assert np.isnan(got[1])  # a subnormal by itself is 0 / 0


# --- 16 bits ----------------------------------------------------------------------------

HALF = ["f16", "bf16"]


def half_flags(kind: str, name: str) -> list[str]:
    if kind == "bf16":
        return ["", ".relu"] if name == "fma" else [""]
    return ["", ".ftz", ".sat", ".ftz.sat", *([".relu", ".ftz.relu"] if name == "fma" else [])]


@pytest.mark.parametrize("kind", HALF)
@pytest.mark.parametrize(("name", "sources"), [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)])
def test_half_arithmetic(
    compute: Compute, reference: Any, samples: Samples, name: str, sources: int, kind: str
) -> None:
    x = operands(samples, kind, sources, 4)
    columns = [reference.values(a, kind) for a in x]
    places = ", ".join(f"%a{i}" for i in range(sources))
    for flags in half_flags(kind, name):
        want = []
        for row in zip(*columns, strict=True):
            if ".ftz" in flags:
                row = reference.flushed(kind, *row)
            result = reference.operate(name, "rn", kind, *row)
            if ".ftz" in flags:
                (result,) = reference.flushed(kind, result)
            if ".sat" in flags:
                result = reference.clamped(result)
            if ".relu" in flags and result <= 0:
                result = 0.0
            want.append(result)
        got = compute(f"{name}.rn{flags}.{kind} %y, {places};", "u2", *x)
        reference.check(reference.values(got, kind), want, *columns)
        assert all(g == 0x7FFF for g, w in zip(got.tolist(), want, strict=True) if math.isnan(w))
        pairs = [a.astype("u4") | np.roll(a, 1).astype("u4") << 16 for a in x]
        both = compute(f"{name}.rn{flags}.{kind}x2 %y, {places};", "u4", *pairs)
        np.testing.assert_array_equal(both & 0xFFFF, got)
        np.testing.assert_array_equal(both >> 16, np.roll(got, 1))


def test_bf16_products_by_fma_with_minus_zero(compute: Compute, samples: Samples) -> None:
    a, b = operands(samples, "bf16", 2, 6)
    zero = "mov.b16 %h1, 0x8000;"
    got = compute(f"{zero} fma.rn.bf16 %y, %a0, %a1, %h1;", "u2", a, b)
    np.testing.assert_array_equal(got, compute("mul.bf16 %y, %a0, %a1;", "u2", a, b))


@pytest.mark.parametrize(
    "text",
    [
        "add.rna.f32 %f1, %f2, %f3;",
        "add.ftz.f64 %g1, %g2, %g3;",
        "fma.f32 %f1, %f2, %f3, %f4;",
        "fma.rn.relu.f32 %f1, %f2, %f3, %f4;",
        "fma.rn.ftz.bf16 %h1, %h2, %h3, %h4;",
        "fma.rn.sat.relu.f16 %h1, %h2, %h3, %h4;",
        "fma.rz.f16 %h1, %h2, %h3, %h4;",
        "add.sat.bf16 %h1, %h2, %h3;",
        "div.f32 %f1, %f2, %f3;",
        "div.rn.f16 %h1, %h2, %h3;",
        "sqrt.f32 %f1, %f2;",
        "rcp.rn.sat.f32 %f1, %f2;",
    ],
)
def test_other_forms_stop(execute: Callable[..., Any], text: str) -> None:
    with pytest.raises(UnsupportedError, match="does not model this opcode"):
        execute(text)
