"""fp32 and fp64 arithmetic against NumPy scalars, and the corner cases by hand."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

Compute = Callable[..., np.ndarray[Any, Any]]

INF, NAN = float("inf"), float("nan")
EDGE = [0.0, -0.0, 1.0, -1.0, 1.5, 3.0, 1e-45, -1e-40, 1.1754944e-38, 3.4028235e38, INF, -INF, NAN]


def same(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    """Bit for bit, but for the payload of a NaN."""
    nan = np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), nan)
    bits = f"u{got.itemsize}"
    np.testing.assert_array_equal(got[~nan].view(bits), want[~nan].view(bits))


@pytest.mark.parametrize(("kind", "dtype"), [("f32", "f4"), ("f64", "f8")])
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add", np.add),
        ("add.rn", np.add),
        ("sub", np.subtract),
        ("mul", np.multiply),
        ("mul.rn", np.multiply),
        ("div.rn", np.divide),
    ],
)
def test_arithmetic(compute: Compute, name: str, function: Any, kind: str, dtype: str) -> None:
    a, b = (x.ravel() for x in np.meshgrid(*[np.array(EDGE, dtype)] * 2))
    with np.errstate(all="ignore"):
        want = np.array([function(x, y) for x, y in zip(a, b, strict=True)], dtype)
    same(compute(f"{name}.{kind} %y, %a0, %a1;", dtype, a, b), want)


def test_signs(compute: Compute) -> None:
    a = np.array(EDGE, "f4")
    same(compute("neg.f32 %y, %a0;", "f4", a), -a)
    same(compute("abs.f32 %y, %a0;", "f4", a), np.abs(a))


@pytest.mark.parametrize(("kind", "dtype"), [("f32", "f4"), ("f64", "f8")])
def test_min_and_max_drop_nan_and_order_the_zeros(compute: Compute, kind: str, dtype: str) -> None:
    a, b = (x.ravel() for x in np.meshgrid(*[np.array(EDGE, dtype)] * 2))

    def rank(x: float) -> tuple[float, int]:
        return x, 0 if np.signbit(x) else 1

    def expected(choose: Any, x: float, y: float) -> float:
        if np.isnan(x) or np.isnan(y):
            return y if np.isnan(x) else x
        return float(choose((x, y), key=rank))

    for name, choose in (("min", min), ("max", max)):
        want = [expected(choose, x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        same(compute(f"{name}.{kind} %y, %a0, %a1;", dtype, a, b), np.array(want, dtype))


def test_fma_rounds_once_where_fp32_would_round_twice(compute: Compute) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(500).astype("f4") for _ in range(2))
    c = (-a * b).astype("f4")  # what is left is the error of the product
    got = compute("fma.rn.f32 %y, %a0, %a1, %a2;", "f4", a, b, c)
    exact = [
        float(Fraction(x) * Fraction(y) + Fraction(z))
        for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    same(got, np.array(exact, "f4"))
    assert np.count_nonzero(got) > 400


def test_fma_of_infinities(compute: Compute) -> None:
    a, b, c = (np.array(x, "f4") for x in ([INF, INF, 3e38], [0.0, 2.0, 2.0], [1.0, -INF, 0.0]))
    got = compute("fma.rn.f32 %y, %a0, %a1, %a2;", "f4", a, b, c)
    same(got, np.array([NAN, NAN, INF], "f4"))


def test_float_literals_take_the_width_of_the_instruction(compute: Compute) -> None:
    a = np.array([1.0], "f4")
    for literal, value in {
        "0f3F800000": 1.0,
        "0F3F800000": 1.0,
        "-0f3F800000": -1.0,
        "0d3FF8000000000000": 1.5,
        "0.5": 0.5,
        "-2.5e1": -25.0,
        "1e3": 1000.0,
        ".25": 0.25,
        "1e300": INF,
        "0": 0.0,
    }.items():
        got = compute(f"mul.f32 %y, %a0, {literal};", "f4", a)
        same(got, np.array([value], "f4"))
    assert compute("add.f64 %y, %a0, 0f3F000000;", "f8", np.array([1.0], "f8")) == [1.5]


def test_bits_declared_b32_are_floats_where_an_instruction_says_so(compute: Compute) -> None:
    a = np.array([1.5], "f4").view("u4")
    assert compute("add.f32 %y, %a0, %a0;", "f4", a) == [3.0]
