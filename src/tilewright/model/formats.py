"""Number formats of matrix operands: how far they reach, and in which steps.

A format is a sign, `exponent_bits` and `mantissa_bits`; a value is 1.mantissa * 2^(exponent),
below the smallest exponent 0.mantissa * 2^(lowest). All arithmetic here is exact, in fractions.
Source: IEEE 754-2019 (fp16, fp32), the OCP 8-bit floating point specification 1.0 (e4m3, e5m2),
the PTX ISA's alternate floating point formats (bf16, tf32).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction

from tilewright.errors import InputError


@dataclass(frozen=True)
class Format:
    """`bytes` is what an element takes in memory; tf32 lies there as fp32, 13 bits unused.

    `infinity` is False for e4m3, which spends those patterns on numbers and keeps one for NaN.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bytes: int
    infinity: bool = True

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def lowest_exponent(self) -> int:
        """Of the normal numbers; below it the steps stop shrinking."""
        return 1 - self.bias

    @property
    def highest_exponent(self) -> int:
        return self.bias + (0 if self.infinity else 1)

    @property
    def largest(self) -> Fraction:
        ulps = (2 << self.mantissa_bits) - (1 if self.infinity else 2)  # e4m3's last is NaN
        return Fraction(ulps) * _power(self.highest_exponent - self.mantissa_bits)

    @property
    def smallest_normal(self) -> Fraction:
        return _power(self.lowest_exponent)

    @property
    def smallest(self) -> Fraction:
        """The smallest positive number, a subnormal."""
        return _power(self.lowest_exponent - self.mantissa_bits)

    @property
    def epsilon(self) -> Fraction:
        """The step from 1 to the next number."""
        return _power(-self.mantissa_bits)

    @property
    def digits(self) -> int:
        """Decimal digits that every number of so many digits keeps through this format."""
        return math.floor(self.mantissa_bits * math.log10(2))

    def step(self, value: Fraction) -> Fraction:
        """The distance between neighbours around `value`, of numbers in range."""
        return _power(max(_exponent(value), self.lowest_exponent) - self.mantissa_bits)

    def nearest(self, value: Fraction) -> Fraction | None:
        """The number nearest to `value`, ties to even; None where it overflows.

        To infinity, or for e4m3 to NaN (cvt with .satfinite takes the largest instead).
        """
        step = self.step(value)
        rounded = round(value / step) * step  # Fraction rounds ties to even
        return None if abs(rounded) > self.largest else rounded

    def bits(self, value: Fraction) -> str:
        """Sign, exponent and mantissa of a number of this format: "0 01111 1010000000"."""
        size = abs(value)
        exponent = max(_exponent(size), self.lowest_exponent)
        ulps = int(size / _power(exponent - self.mantissa_bits))
        normal = ulps >> self.mantissa_bits
        biased = exponent + self.bias if normal else 0
        mantissa = ulps & ((1 << self.mantissa_bits) - 1)
        sign = int(value < 0)
        return f"{sign} {biased:0{self.exponent_bits}b} {mantissa:0{self.mantissa_bits}b}"


FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format("fp32", 8, 23, 4),
        Format("tf32", 8, 10, 4),
        Format("bf16", 8, 7, 2),
        Format("fp16", 5, 10, 2),
        Format("e5m2", 5, 2, 1),
        Format("e4m3", 4, 3, 1, infinity=False),
    )
}
_ALIASES = {"half": "fp16", "f16": "fp16", "float16": "fp16", "bfloat16": "bf16", "f32": "fp32"}
_ALIASES |= {"float": "fp32", "float32": "fp32"}


def format_named(name: str) -> Format:
    """Raises: InputError for a format that is not known, with the nearest."""
    word = name.lower()
    word = _ALIASES.get(word, word)
    if word in FORMATS:
        return FORMATS[word]
    near = get_close_matches(word, FORMATS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"use {', '.join(FORMATS)}."
    raise InputError(f"dtype={name!r} is not known; {hint}")


def _power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def _exponent(value: Fraction) -> int:
    """floor(log2(|value|)); a very small number for 0."""
    if not value:
        return -(1 << 20)
    size = abs(value)
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if _power(guess) <= size else guess - 1
