"""The float64 oracle: is C the product of A and B, as exactly as the formats allow?

Each element may differ from the float64 product by

    u·|exact| + tiny/2 + (4·√k + k/8)·2⁻²⁴·(|A|·|B|)

u·|exact| + tiny/2   the one rounding of the result to its type (tiny: its smallest subnormal);
4·√k·2⁻²⁴            k fp32 roundings whose signs are independent, four standard deviations;
k/8·2⁻²⁴             an mma of 16 products truncates its sum towards zero: at most 2⁻²³ each of
                     the k/16 times, and always in the same direction.

fp32 products are sums of k fused multiply-adds, each rounded to nearest, and the last one's
rounding is the result's own. Each errs by at most 2⁻²⁴ of a partial sum, or tiny/2, so that

    k·tiny/2 + min(k + 1, 4·√k)·2⁻²⁴·(|A|·|B|)

is the bound: k times the largest error where k is small (and once more for errors of errors), four
standard deviations where it is large. TF32 errs by 2⁻¹¹ of each product and is found out
up to a k of some thousands.

tf32 cuts both factors of each product, by rounding (at most 2⁻¹¹ of each, either way) or, as
libraries do, by dropping bits (at most 2⁻¹⁰, towards zero: 2⁻¹¹ on average, and the spread of
rounding). Beside what is allowed to a sum of mmas in fp32, of 8 products each, there is then

    2⁻¹⁰·|exact| + 5·2⁻¹¹·√(A²·B²), and at most 2⁻⁹·(|A|·|B|)

the bias of dropping bits, and six standard deviations of a sum of products that err each by
√(2/3)·2⁻¹¹ of themselves at most (A² and B² element by element); the last is the worst case.

(|A|·|B|) is the sum of the absolute products. Source: N. Higham and T. Mary, "A New Approach to
Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41 (2019); M. Fasi et al.,
"Numerical behavior of NVIDIA tensor cores", PeerJ Comput. Sci. 7 (2021) for the truncation.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.dtypes import FP32, TF32, DType
from tilewright.errors import InputError
from tilewright.problem import whole

_FP32_ROUNDOFF = 2.0**-24
_MMA_K = {2: 16, 4: 8}  # products that an mma sums, by the bytes of an element
_ALL_ROWS_BELOW = 3e11  # FLOP; above, a sample of rows is checked so that it takes seconds
_SAMPLED_ROWS = 256

_Wide = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Oracle:
    """The float64 product of some rows of A with B, and what each element may differ by."""

    shape: tuple[int, int]  # of C
    rows: npt.NDArray[np.int64]
    exact: npt.NDArray[np.float64]
    bound: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """`rel_error` is ‖C − exact‖F ÷ ‖exact‖F over the checked rows (NaN if C holds one)."""

    correct: bool
    rel_error: float
    message: str  # "" when correct


def oracle(a: npt.NDArray[Any], b: npt.NDArray[Any], dtype: DType, seed: int = 0) -> Oracle:
    """The reference for C[m, n] = a[m, k] · b[k, n].

    Cost: two matrix products on the CPU, one of them in float64; above 3·10¹¹ FLOP, of 256 rows
    drawn with `seed`, the first and the last among them.
    """
    m, k = a.shape
    rows = np.arange(m)
    if 2.0 * m * k * b.shape[1] > _ALL_ROWS_BELOW and m > _SAMPLED_ROWS:
        drawn = np.random.default_rng(seed).choice(m, _SAMPLED_ROWS, replace=False)
        drawn[:2] = 0, m - 1
        rows = np.unique(drawn)
    exact, bound = sums(a[rows].astype(np.float64), b.astype(np.float64), dtype)
    if dtype != FP32:  # whose last sum is rounded already
        result = FP32 if dtype == TF32 else dtype
        bound += result.unit_roundoff * np.abs(exact) + result.tiny / 2
    return Oracle((m, b.shape[1]), rows, exact, bound)


def sums(left: _Wide, right: _Wide, dtype: DType) -> tuple[_Wide, _Wide]:
    """left[…, m, k] · right[…, k, n] of elements of this type, and what fp32 sums may differ by:
    all of the bound but for the rounding of an fp32 sum to the result's type."""
    k = left.shape[-1]
    exact: _Wide = left @ right
    magnitude = _magnitude(left, right)
    if dtype == FP32:
        roundings = min(k + 1, 4 * sqrt(k)) * _FP32_ROUNDOFF
        return exact, np.asarray(k * dtype.tiny / 2 + roundings * magnitude, np.float64)
    slack = (4 * sqrt(k) + 2 * k / _MMA_K[dtype.bytes]) * _FP32_ROUNDOFF
    bound = np.asarray(slack * magnitude, np.float64)
    if dtype == TF32:
        bound += _cut(left, right, exact, magnitude)
    return exact, bound


def _cut(left: _Wide, right: _Wide, exact: _Wide, magnitude: _Wide) -> _Wide:
    """What tf32 factors cost: the bias and the spread of both cuts, or the worst case."""
    spread = np.sqrt(_magnitude(left * left, right * right))
    likely = 2 * np.abs(exact) + 5 * spread
    cost: _Wide = TF32.unit_roundoff * np.minimum(likely, 4 * magnitude)
    return cost


def _magnitude(left: _Wide, right: _Wide) -> Any:
    """|A|·|B|, in fp32 where its range suffices: a bound need not be exact to the last bit."""
    with np.errstate(over="ignore"):
        quick = np.abs(left).astype(np.float32) @ np.abs(right).astype(np.float32)
    return quick if np.isfinite(quick).all() else np.abs(left) @ np.abs(right)


def judge(c: npt.NDArray[Any], reference: Oracle) -> Verdict:
    """Compares C[m, n] with the oracle; an element that is not a number is wrong.

    Raises: InputError when C has another shape than A·B.
    """
    if c.shape != reference.shape:
        raise InputError(f"C is {c.shape}; the product has the shape {reference.shape}.")
    got = c[reference.rows].astype(np.float64)
    with np.errstate(invalid="ignore"):  # inf − inf is NaN, and NaN is wrong
        difference = np.abs(got - reference.exact)
        wrong = ~(difference <= reference.bound)
        norm = float(np.linalg.norm(reference.exact)) or 1.0
        rel_error = float(np.linalg.norm(difference)) / norm
    if not wrong.any():
        return Verdict(True, rel_error, "")
    row, col = (int(i) for i in np.argwhere(wrong)[0])
    message = (
        f"{int(wrong.sum())} of {wrong.size} checked elements are wrong, first "
        f"C[{reference.rows[row]}, {col}] = {got[row, col]:.6g}, "
        f"expected {reference.exact[row, col]:.6g} ± {reference.bound[row, col]:.2g}"
    )
    return Verdict(False, rel_error, message)


def random_operands(
    m: int, n: int, k: int, dtype: DType, seed: int = 0
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Normal random A[m, k] and B[k, n] of the type; zeros would hide faults and run faster."""
    if whole("seed", seed) < 0:
        raise InputError(f"seed={seed} must be 0 or more.")
    random = np.random.default_rng(seed)
    a = random.standard_normal((m, k), np.float32).astype(dtype.numpy())
    b = random.standard_normal((k, n), np.float32).astype(dtype.numpy())
    return a, b
