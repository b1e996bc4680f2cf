"""Approximations: within the ISA's error of Python's mathematics, and the corners by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Compute = Callable[..., np.ndarray[Any, Any]]
INF, NAN = math.inf, math.nan

FUNCTIONS: dict[str, tuple[Callable[[float], float], float, float]] = {  # with low, high
    "rcp": (lambda x: 1 / x, 0.001, 1000),
    "sqrt": (math.sqrt, 0, 1000),
    "rsqrt": (lambda x: 1 / math.sqrt(x), 0.001, 1000),
    "sin": (math.sin, -6.3, 6.3),
    "cos": (math.cos, -6.3, 6.3),
    "lg2": (math.log2, 2, 1e30),
    "ex2": (lambda x: 2.0**x, -100, 100),
    "tanh": (math.tanh, -5, 5),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_one_ulp(compute: Compute, name: str) -> None:
    function, low, high = FUNCTIONS[name]
    a = np.random.default_rng(0).uniform(low, high, 300).astype("f4")
    want = np.array([function(x) for x in a.tolist()])
    for ftz in ("", ".ftz") if name != "tanh" else ("",):
        got = compute(f"{name}.approx{ftz}.f32 %y, %a0;", "f4", a)
        np.testing.assert_allclose(got, want, rtol=2.0**-23, atol=1e-30)


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("rcp", [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0), (2.0**-126, 2.0**126)]),
        ("sqrt", [(-0.0, -0.0), (-1.0, NAN), (INF, INF), (NAN, NAN)]),
        ("rsqrt", [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN)]),
        ("sin", [(-0.0, -0.0), (INF, NAN), (-INF, NAN)]),
        ("cos", [(-0.0, 1.0), (INF, NAN)]),
        ("lg2", [(0.0, -INF), (-0.0, -INF), (-1.0, NAN), (INF, INF), (1.0, 0.0)]),
        ("ex2", [(-INF, 0.0), (INF, INF), (-0.0, 1.0), (200.0, INF), (-200.0, 0.0)]),
        ("tanh", [(-0.0, -0.0), (INF, 1.0), (-INF, -1.0)]),
    ],
)
def test_corners(
    compute: Compute, reference: Any, name: str, pairs: list[tuple[float, float]]
) -> None:
    a = np.array([x for x, _ in pairs], "f4")
    got = compute(f"{name}.approx.f32 %y, %a0;", "f4", a)
    reference.check(got.tolist(), [y for _, y in pairs], a.tolist())


def test_flush(compute: Compute) -> None:
    a = np.array([1e-40, -1e-40], "f4")
    assert compute("rcp.approx.ftz.f32 %y, %a0;", "f4", a).tolist() == [INF, -INF]
    assert compute("lg2.approx.ftz.f32 %y, %a0;", "f4", a).tolist() == [-INF, -INF]
    got = compute("ex2.approx.ftz.f32 %y, %a0;", "f4", np.array([-127.0, -126.0], "f4"))
    assert got.tolist() == [0.0, 2.0**-126]
    got = compute("ex2.approx.f32 %y, %a0;", "f4", np.array([-127.0], "f4"))
    assert got.tolist() == [2.0**-127]


def test_quotients(compute: Compute, reference: Any) -> None:
    a = np.array([1.0, 5.0, -3.0, 1.0, INF, 1.0, INF, 0.0], "f4")
    b = np.array([3.0, 0.25, 0.0, -INF, 2.0**127, 1.5 * 2.0**126, 2.0, 0.0], "f4")
    third = float(np.float32(1 / 3))
    got = compute("div.approx.f32 %y, %a0, %a1;", "f4", a, b)
    reference.check(got.tolist(), [third, 20.0, -INF, -0.0, NAN, 0.0, INF, NAN], a.tolist())
    got = compute("div.full.f32 %y, %a0, %a1;", "f4", a, b)
    least = float(np.float32(1 / (1.5 * 2.0**126)))
    reference.check(got.tolist(), [third, 20.0, -INF, -0.0, INF, least, INF, NAN], a.tolist())
    assert compute("div.full.ftz.f32 %y, %a0, %a1;", "f4", a, b)[5] == 0


def test_upper_words_of_fp64(compute: Compute) -> None:
    a = np.array([3.0, -7.25, 0.0, -0.0, INF, 1e-310, NAN, 1e308], "f8")
    for name in ("rcp", "rsqrt"):
        got = compute(f"{name}.approx.ftz.f64 %y, %a0;", "u8", a)
        assert not (got & 0xFFFF_FFFF).any()
        value = got.view("f8")
        assert abs(value[0] - (1 / 3 if name == "rcp" else 3**-0.5)) < 2.0**-20
        assert (value[2], value[3]) == (INF, -INF)
        assert (value[4], value[5]) == (0.0, INF)
        assert math.isnan(value[6])
    assert compute("rsqrt.approx.f64 %y, %a0;", "f8", np.array([4.0, 2.0], "f8")).tolist() == [
        0.5,
        pytest.approx(2**-0.5, rel=2**-52),
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ex2.approx", "f16"),
        ("ex2.approx.ftz", "bf16"),
        ("tanh.approx", "f16"),
        ("tanh.approx", "bf16"),
    ],
)
def test_halves(compute: Compute, reference: Any, samples: Any, name: str, kind: str) -> None:
    a = samples(kind, 60)
    values = np.array(reference.values(a, kind))
    with np.errstate(all="ignore"):
        want = np.exp2(values) if name.startswith("ex2") else np.tanh(values)
    got = compute(f"{name}.{kind} %y, %a0;", "u2", a)
    bound = 2.0**-11 if kind == "f16" else 2.0**-8
    small = 2.0**-25 if kind == "f16" else 2.0**-126
    most = 65519.0 if kind == "f16" else 3.39e38
    want = np.where(np.abs(want) > most, np.inf, want)
    result = np.array(reference.values(got, kind))
    np.testing.assert_allclose(result, want, rtol=bound, atol=small)
    both = compute(f"{name}.{kind}x2 %y, %a0;", "u4", a.astype("u4") << 16 | 0x0000)
    np.testing.assert_array_equal(both >> 16, got)


@pytest.mark.parametrize(
    "text",
    [
        "sin.f32 %f1, %f2;",
        "tanh.approx.ftz.f32 %f1, %f2;",
        "ex2.approx.f64 %g1, %g2;",
        "ex2.approx.bf16 %h1, %h2;",
        "rcp.approx.f64 %g1, %g2;",
        "div.full.f64 %g1, %g2, %g3;",
        "lg2.approx.f16 %h1, %h2;",
    ],
)
def test_other_forms_stop(execute: Callable[..., Any], text: str) -> None:
    with pytest.raises(UnsupportedError, match="does not model this opcode"):
        execute(text)
