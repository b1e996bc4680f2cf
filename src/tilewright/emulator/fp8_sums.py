"""Sums of fp8 products as wgmma makes them, with fewer bits than fp32 has.

Source: tests/data/silicon/wgmma.npz, recorded on an H200 in November 2026. All its sums of fp8,
infinities, NaN and overflow among them, agree to the bit (tests/emulator/test_silicon_wgmma.py).
`mma` of fp8 goes another way there: through fp16, see `Product` in ops/matrix.py.
"""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.fragments import NAN, settled_half

_PLACES = 13  # that a term keeps below the largest exponent, and fp32 d below its own
_LEAST = {"e4m3": -6, "e5m2": -14, "f16": -14, "f32": -126}  # exponents of encoded numbers
_NOTHING = np.int16(-300)  # the exponent of zero: below any sum of two others


def fp8_total(a: Array, b: Array, c: Array, kinds: tuple[str, str, str]) -> Array:
    """a·b + c of matrices [n, rows, k], [n, k, columns] and [n, rows, columns]; fp32 or fp16 as c.

    `kinds` are those of d (and c), a and b. The exact products of all k and c are aligned to the
    largest exponent among them, of a product the sum of its factors' exponents. Each is cut 13
    places below it, toward zero, and the sum of these is exact. It is then cut to 14 bits (fp32,
    toward zero) or rounded once (fp16, to nearest even). Only that may overflow, no partial sum:
    infinity and NaN come of infinite and NaN terms as in exact arithmetic. Zero is +0.

    Whether a subnormal factor has the least exponent, as here, or that of its first bit, no
    recorded sum says.
    Cost: 1 ms for one m64n256k32, some 60 times a matrix product of fp32.
    """
    d, left, right = kinds
    rows, columns = _exponents(a, _LEAST[left]), _exponents(b, _LEAST[right])
    top = _exponents(c, _LEAST[d])
    for k in range(a.shape[-1]):
        np.maximum(top, rows[:, :, k, None] + columns[:, k, None, :], out=top)
    unit = np.ldexp(1.0, np.maximum(top, _LEAST["f32"]) - _PLACES)
    a, b = a.astype(np.float64), b.astype(np.float64)
    total = np.trunc(c / unit)
    for k in range(a.shape[-1]):
        total += np.trunc(a[:, :, k, None] * b[:, k, None, :] / unit)
    total *= unit
    if d == "f16":
        return settled_half(total)
    bits = total.view(np.int64)
    bits &= -1 << 52 - _PLACES  # an infinity stays one, and NaN too
    single: Array = total.astype(np.float32) + np.float32(0)
    single[np.isnan(single)] = NAN
    return single


def _exponents(values: Array, least: int) -> Array:
    """int16; those of infinities and NaN don't matter, as the sum is not finite anyway."""
    exponent = np.maximum(np.frexp(values)[1].astype(np.int16) - np.int16(1), np.int16(least))
    found: Array = np.where(values == 0, _NOTHING, exponent)
    return found
