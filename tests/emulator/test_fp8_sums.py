"""Sums of fp8 products, by hand. test_silicon_wgmma.py has an H200's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.emulator.fp8_sums import fp8_total

Array = np.ndarray[Any, Any]


def total(a: list[float], b: list[float], c: float, d: str = "f32", kind: str = "e5m2") -> Array:
    """One element of d."""
    left, right = np.array([[a]], "f4"), np.array([b], "f4")[..., None]
    with np.errstate(all="ignore"):
        addend = np.full((1, 1, 1), c, "f4" if d == "f32" else "f2")
        element: Array = fp8_total(left, right, addend, (d, kind, kind))[0, 0]
    return element


@pytest.mark.parametrize(
    ("a", "b", "c", "want"),
    [
        ([1, 2**-7], [1, 2**-6], 0.0, 1 + 2**-13),  # the last place that is kept
        ([1, 2**-7], [1, 1.75 * 2**-7], 0.0, 1.0),  # below it, cut
        ([1, -(2**-7)], [1, 1.75 * 2**-7], 0.0, 1.0),  # toward zero, so that 1 stays whole
        ([1.5, 2**-7], [1.5, 2**-6], 0.0, 2.25),  # 14 bits of 2.25 + 2**-13
        ([1.5, -(2**-7)], [1.5, 2**-6], 0.0, 2.25 - 2**-12),  # aligned to 1, though 2.25 > 2
        ([2**-7, 2**-7], [2**-7, 2**-7], 1.0, 1.0),  # c aligns too; two halves of a place are cut
        ([2**-7], [2**-7], 2**-30, 2**-14),  # and is cut itself
        ([1.75] * 4, [1.75] * 4, 2**-13, 12.25),  # more than 14 bits: cut
    ],
)
def test_what_is_cut(a: list[float], b: list[float], c: float, want: float) -> None:
    assert total(a, b, c) == want


def test_fp16_is_rounded_once() -> None:
    assert total([1, 2**-5], [1, 2**-6], 0.0, "f16") == 1.0  # a tie, to even
    assert total([1, 2**-5, 2**-7], [1, 2**-6, 2**-6], 0.0, "f16") == 1 + 2**-10
    big = total([57344, -57344], [57344, 57344], 5.0, "f16")
    assert big == 0.0  # products beyond fp16 cancel; c lies below the last place


@pytest.mark.parametrize(("d", "bits"), [("f32", 0x7FFFFFFF), ("f16", 0x7FFF)])
@pytest.mark.parametrize(
    ("a", "b"), [([np.inf], [0]), ([np.inf, np.inf], [1, -1]), ([np.nan], [1])]
)
def test_nan_has_one_form(d: str, bits: int, a: list[float], b: list[float]) -> None:
    found = total(a, b, 1.0, d)
    assert found.view(f"u{found.dtype.itemsize}") == bits


@pytest.mark.parametrize("d", ["f32", "f16"])
def test_infinity_and_zero(d: str) -> None:
    assert total([-np.inf, 3], [2, 1], 1.0, d) == -np.inf
    zero = total([-1, 1], [1, 1], -0.0, d)
    assert zero == 0
    assert not np.signbit(zero)


def test_a_finite_sum_beyond_fp16_is_infinite() -> None:
    assert total([-448], [448], 0.0, "f16", "e4m3") == -np.inf
    assert total([-448], [448], 0.0, "f32", "e4m3") == -(448.0**2)
