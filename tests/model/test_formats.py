"""Formats: their extremes, their steps and roundings, against NumPy where it has them."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from tilewright.dtypes import DTYPES
from tilewright.errors import InputError
from tilewright.model.formats import FORMATS, format_named


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp32"])
def test_they_agree_with_the_packages_types(name: str) -> None:
    form, dtype = FORMATS[name], DTYPES[name]
    assert form.bytes == dtype.bytes
    assert (float(form.largest), float(form.smallest)) == (dtype.largest, dtype.tiny)
    assert float(form.epsilon) == 2 * dtype.unit_roundoff


@pytest.mark.parametrize(
    ("name", "largest", "smallest_normal", "smallest"),
    [
        ("e4m3", 448, 2.0**-6, 2.0**-9),
        ("e5m2", 57344, 2.0**-14, 2.0**-16),
        ("fp16", 65504, 2.0**-14, 2.0**-24),
        ("tf32", float(2 - Fraction(1, 1024)) * 2.0**127, 2.0**-126, 2.0**-136),
    ],
)
def test_extremes(name: str, largest: float, smallest_normal: float, smallest: float) -> None:
    form = FORMATS[name]
    assert float(form.largest) == largest
    assert float(form.smallest_normal) == smallest_normal
    assert float(form.smallest) == smallest


@pytest.mark.parametrize(("name", "kind"), [("fp16", np.float16), ("fp32", np.float32)])
def test_roundings_are_numpys(name: str, kind: type[np.floating]) -> None:
    form, draw = FORMATS[name], random.Random(3)
    for _ in range(2000):
        value = draw.uniform(-1, 1) * 2.0 ** draw.randint(-30, 17)
        with np.errstate(all="ignore"):
            expected = float(kind(value))
        found = form.nearest(Fraction(value))
        assert (float("inf") if found is None else abs(float(found))) == abs(expected)
        if found is not None:
            bits = int(form.bits(found).replace(" ", ""), 2)
            unsigned = np.uint16 if form.bytes == 2 else np.uint32
            assert bits & ~(1 << (8 * form.bytes - 1)) == int(abs(kind(value)).view(unsigned)), (
                value
            )


def test_ties_go_to_even_and_overflow_beyond_the_last_half_step() -> None:
    e4m3, fp16 = FORMATS["e4m3"], FORMATS["fp16"]
    assert e4m3.nearest(Fraction(17)) == 16
    assert e4m3.nearest(Fraction(19)) == 20
    assert e4m3.nearest(Fraction(463)) == 448
    assert e4m3.nearest(Fraction(480)) is None
    assert fp16.nearest(Fraction(65519)) == 65504
    assert fp16.nearest(Fraction(65520)) is None


def test_steps() -> None:
    assert FORMATS["bf16"].step(Fraction(256)) == 2
    assert FORMATS["bf16"].step(Fraction(255)) == 1
    assert FORMATS["fp16"].step(Fraction(0)) == Fraction(1, 1 << 24)
    assert FORMATS["e4m3"].bits(Fraction(-3, 512)) == "1 0000 011"


@pytest.mark.parametrize(("word", "name"), [("BF16", "bf16"), ("half", "fp16"), ("f32", "fp32")])
def test_names(word: str, name: str) -> None:
    assert format_named(word).name == name


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InputError, match=r"dtype='e4m4' is not known; did you mean e4m3\?"):
        format_named("e4m4")
