"""Reference arithmetic on fractions, independent of the emulator's."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

ROUND: dict[str, Callable[[Fraction], int]] = {
    **{"rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil},
    "rna": lambda x: int(math.copysign(math.floor(abs(x) + Fraction(1, 2)), x)),
}
FORMATS = {  # bits of precision, least exponent of a normal number, greatest number
    "f16": (11, -14, 65504.0),
    "bf16": (8, -126, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)),
    "f32": (24, -126, float(np.finfo("f4").max)),
    "tf32": (11, -126, (2 - 2.0**-10) * 2.0**127),
    "f64": (53, -1022, float(np.finfo("f8").max)),
}


class Reference:
    """Correctly rounded operations on Python floats that stand for any of FORMATS."""

    def rounded(self, value: Fraction, kind: str, mode: str, negative: bool) -> float:
        """`negative` is the sign of a zero."""
        precision, least, greatest = FORMATS[kind]
        if value == 0:
            return -0.0 if negative else 0.0
        size = abs(value)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        exponent -= Fraction(2) ** exponent > size
        quantum = Fraction(2) ** (max(exponent, least) - precision + 1)
        result = ROUND[mode](value / quantum) * quantum
        if abs(result) > Fraction(greatest):
            down = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
            return math.copysign(greatest if down else math.inf, 1 if value > 0 else -1)
        return float(result) if result else math.copysign(0.0, 1 if value > 0 else -1)

    def operate(self, name: str, mode: str, kind: str, *x: float) -> float:
        """add, sub, mul, div, fma or sqrt (to nearest only where it is irrational)."""
        if name == "sub":
            return self.operate("add", mode, kind, x[0], -x[1])
        if name == "fma":
            if not all(map(math.isfinite, x)):
                product = x[0] * x[1] if not (math.isfinite(x[0]) and math.isfinite(x[1])) else 0.0
                return product + x[2]
            value = Fraction(x[0]) * Fraction(x[1]) + Fraction(x[2])
            signs = [math.copysign(1, x[0]) * math.copysign(1, x[1]) < 0, self.negative(x[2])]
            return self.rounded(value, kind, mode, self._zero(signs, mode))
        if not all(map(math.isfinite, x)) or (name == "div" and x[1] == 0):
            with np.errstate(all="ignore"):
                ufunc = {"add": np.add, "mul": np.multiply, "div": np.divide}[name]
                return float(ufunc(np.float64(x[0]), np.float64(x[1])))
        a, b = map(Fraction, x)
        signs = [self.negative(x[0]), self.negative(x[1])]
        if name == "add":
            return self.rounded(a + b, kind, mode, self._zero(signs, mode))
        value = a * b if name == "mul" else a / b
        return self.rounded(value, kind, mode, signs[0] != signs[1])

    def root(self, mode: str, kind: str, x: float) -> float:
        """The square root: a fraction with 80 more bits than the result, the last one sticky."""
        if math.isnan(x) or x < 0:
            return math.nan
        if x == 0 or math.isinf(x):
            return x
        value = Fraction(x)
        shift = 2 * (200 + max(0, -math.frexp(x)[1]))
        whole = math.isqrt(int(value * 2**shift))
        sticky = Fraction(whole) ** 2 != value * 2**shift
        return self.rounded(
            (whole + Fraction(sticky, 2)) / 2 ** (shift // 2), kind, mode, negative=False
        )

    @staticmethod
    def negative(x: float) -> bool:
        return math.copysign(1, x) < 0

    @staticmethod
    def _zero(signs: list[bool], mode: str) -> bool:
        return signs[0] if signs[0] == signs[1] else mode == "rm"

    @staticmethod
    def flushed(kind: str, *x: float) -> tuple[float, ...]:
        least = 2.0 ** FORMATS[kind][1]
        return tuple(math.copysign(0.0, v) if abs(v) < least else v for v in x)

    @staticmethod
    def clamped(x: float) -> float:
        return min(x, 1.0) if x > 0 else 0.0

    @staticmethod
    def values(array: np.ndarray[Any, Any], kind: str) -> list[float]:
        """Bits (or floats) → Python floats."""
        dtype = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": "f4", "f64": "f8"}[kind]
        with np.errstate(all="ignore"):
            result: list[float] = array.view(dtype).astype("f8").tolist()
        return result

    @staticmethod
    def check(got: list[float], want: list[float], *inputs: list[float]) -> None:
        """The same numbers, signs of zeros included; any NaN is a NaN."""
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            same = math.isnan(g) if math.isnan(w) else g == w and repr(g) == repr(w)
            assert same, (g, w, [column[i] for column in inputs])


@pytest.fixture(scope="session")
def reference() -> Reference:
    return Reference()


def _samples(kind: str, count: int) -> np.ndarray[Any, Any]:
    """Bits: zeros, subnormals, limits, infinities, a NaN, and others from everywhere."""
    width = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}[kind]
    precision = FORMATS[kind][0]
    mantissa, one = precision - 1, (1 << width - 1 - precision) - 1 << precision - 1
    infinity = (1 << width - 1) - (1 << mantissa)
    edge = [0, 1, (1 << mantissa) - 1, 1 << mantissa, one, one + 1, one + (1 << mantissa - 1)]
    edge += [infinity - 1, infinity, infinity + (1 << mantissa - 1)]
    rng = np.random.default_rng(2)
    near = one + rng.integers(-(3 << mantissa), 3 << mantissa, count)
    anywhere = rng.integers(0, 1 << width - 1, count)
    bits = [int(x) for x in (*edge, *near, *anywhere)]
    bits += [x | 1 << width - 1 for x in bits]
    return np.array(bits, f"u{width // 8}")


@pytest.fixture(scope="session")
def samples() -> Callable[[str, int], np.ndarray[Any, Any]]:
    """samples(kind, count): bits of a float type, with about 4 · count random ones."""
    return _samples
