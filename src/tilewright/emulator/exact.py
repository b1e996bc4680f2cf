"""Sums, products, quotients and roots rounded once, in any mode, from float64 operations.

fp32 and narrower formats: the float64 result is rounded to odd (its last bit says that something
was cut off), after which any rounding to at most 51 bits gives what a single rounding would
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd"). fp64: their fma, and fractions where it would over- or underflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tilewright.emulator.arrays import Array

_SPLITTER = 134217729.0  # 2**27 + 1, Veltkamp's


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """fl(a + b) and its error, exact (Knuth); the error of an infinity or a NaN is NaN."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def odd_sum(a: Array, b: Array) -> Array:
    """a + b in float64, rounded to odd."""
    total, error = two_sum(a, b)
    raw = total.view(np.int64)
    inexact = (error > 0) | (error < 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    odd: Array = np.where(inexact & (raw & 1 == 0), raw + step, raw).view(np.float64)
    return odd


def signed_sum(a: Array, b: Array, mode: str) -> Array:
    """`odd_sum` with IEEE's sign of an exact zero: − in mode rm where the operands' differ."""
    total = odd_sum(a, b)
    if mode != "rm":
        return total
    return np.where((total == 0) & (np.signbit(a) != np.signbit(b)), -0.0, total)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """fl(a · b) and its error (Dekker); exact while nothing over- or underflows."""
    product = a * b
    a1, a0 = _split(a)
    b1, b0 = _split(b)
    return product, a0 * b0 - (product - a1 * b1 - a0 * b1 - a1 * b0)


def _split(value: Array) -> tuple[Array, Array]:
    scaled = value * _SPLITTER
    high = scaled - (scaled - value)
    return high, value - high


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a · b + c on float32, rounded once to nearest even.

    The product is exact in float64. The sum is rounded twice, which is wrong at most where the
    first rounding ends on a tie of the second, or among the subnormals: those are done again.
    """
    total = a.astype(np.float64) * b + c
    result: Array = total.astype(np.float32)
    doubtful = (total.view(np.uint64) & np.uint64(0x1FFF_FFFF)) == np.uint64(0x1000_0000)
    doubtful |= (np.abs(total) < 2.0**-125) & (total != 0)
    if doubtful.any():
        x, y, z = (part[doubtful].astype(np.float64) for part in np.broadcast_arrays(a, b, c))
        result[doubtful] = odd_sum(x * y, z).astype(np.float32)
    return result


def fma64(a: Array, b: Array, c: Array) -> Array:
    """a · b + c on float64, rounded once to nearest even (Boldo and Melquiond)."""
    a, b, c = np.broadcast_arrays(a, b, c)
    product, low = two_product(a, b)
    upper, rest = two_sum(c, low)
    total, error = two_sum(product, upper)
    result = total + odd_sum(rest, error)
    size = np.abs(product)
    finite = np.isfinite(a) & np.isfinite(b)
    plain = (a == 0) | (b == 0) | ~finite | ~np.isfinite(c)
    safe = (np.abs(a) < 2.0**500) & (np.abs(b) < 2.0**500) & (size > 2.0**-900)
    safe &= np.abs(c) < 2.0**1000
    endless = np.where(finite & np.isinf(c), c, product + c)  # the product may have overflown
    result = np.where(plain, endless, result)
    hard = ~plain & ~safe
    if hard.any():
        result[hard] = _each(_fma_fraction, a[hard], b[hard], c[hard])
    return result


def _fma_fraction(a: float, b: float, c: float) -> float:
    total = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _each(function: Callable[..., float], *operands: Array) -> Array:
    """A function of Python floats on every element; about 5 µs each."""
    result = np.frompyfunc(function, len(operands), 1)(*operands)
    return np.asarray(result).astype(np.float64)


# --- fp64 in the directed modes ---------------------------------------------------------

# The sign of (result − exact), for finite operands; a result of ±infinity is an overflow.
_EXCESS: dict[str, Callable[..., Fraction | float]] = {
    "add": lambda r, a, b: r - (Fraction(a) + Fraction(b)),
    "mul": lambda r, a, b: r - Fraction(a) * Fraction(b),
    "fma": lambda r, a, b, c: r - (Fraction(a) * Fraction(b) + Fraction(c)),
    "div": lambda r, a, b: (r * Fraction(b) - Fraction(a)) * (1 if b > 0 else -1),
    "sqrt": lambda r, a: r * r - Fraction(a),
}
_NEAREST: dict[str, Callable[..., Array]] = {
    **{"add": np.add, "mul": np.multiply, "fma": fma64, "div": np.divide, "sqrt": np.sqrt},
}


def operate64(name: str, mode: str, *operands: Array) -> Array:
    """add, mul, fma, div or sqrt on float64, rounded once.

    Cost: rn a few NumPy passes; the other modes about 10 µs an element (fractions).
    """
    result = _NEAREST[name](*operands)
    if mode == "rn":
        return result
    excess = np.frompyfunc(lambda *numbers: _excess(name, *numbers), 1 + len(operands), 1)
    sign = np.asarray(excess(result, *operands)).astype(np.int8)
    result = stepped(result, sign, mode)
    if mode == "rm" and name in ("add", "fma"):
        first, second = (operands[0] * operands[1], operands[2]) if name == "fma" else operands
        differ = np.signbit(first) != np.signbit(second)
        exact = (result == 0) & (sign == 0) & differ
        return np.where(exact, -0.0, result)
    return result


def _excess(name: str, result: float, *operands: float) -> int:
    if not all(map(math.isfinite, operands)) or (name == "div" and operands[1] == 0):
        return 0
    if math.isnan(result):
        return 0
    if math.isinf(result):
        return 1 if result > 0 else -1
    difference = _EXCESS[name](Fraction(result), *operands)
    return (difference > 0) - (difference < 0)


def stepped(nearest: Array, excess: Array, mode: str) -> Array:
    """The number that `mode` asks for, from the nearest one and the sign of its excess."""
    down = np.full_like(nearest, -np.inf)
    down = np.nextafter(nearest, down)
    up = np.nextafter(nearest, np.full_like(nearest, np.inf))
    if mode == "rm":
        return np.where(excess > 0, down, nearest)
    if mode == "rp":
        return np.where(excess < 0, up, nearest)
    positive = ~np.signbit(nearest)
    inward = np.where(positive & (excess > 0), down, nearest)
    return np.where(~positive & (excess < 0), up, inward)
