"""What a whole request must give, in float64, and between which values kernels may end.

The product lies within verify.py's bound of its fp32 sums. Each part of the epilogue takes that
interval to the next one: all values that fp32 may make of all values it may be given
(interval.py). The ends of the last interval are rounded once to the result's type, which is
monotone, so that what lies between them, and nothing else, is right. An overflow is right where
an end overflows; NaN is right where float64 gives it, and never in the place of a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tilewright.dtypes import FP32, TF32, DType
from tilewright.errors import InputError
from tilewright.gemm.interval import Interval, Wide
from tilewright.gemm.request import Request
from tilewright.verify import Verdict, sums


@runtime_checkable
class _Enclosing(Protocol):
    """A part that says what fp32 may make of an interval, as those of epilogue.py do."""

    def enclose(self, x: Interval, operands: Mapping[str, npt.NDArray[Any]]) -> Interval: ...


@dataclass(frozen=True)
class Expected:
    """The float64 result `exact`[…, m, n], and the least and greatest that a kernel may store.

    Where `low` and `high` are −inf and inf, an overflow leaves nothing to be said.
    """

    exact: Wide
    low: Wide
    high: Wide

    @property
    def bound(self) -> Wide:
        """The largest difference from `exact` that is right; NaN where `exact` is no number."""
        with np.errstate(invalid="ignore"):
            return np.maximum(self.high - self.exact, self.exact - self.low)

    def verdict(self, got: npt.NDArray[Any]) -> Verdict:
        """Whether a result is right, with a sentence about the first element that is not.

        Raises: InputError when it has another shape.
        """
        if got.shape != self.exact.shape:
            raise InputError(f"the result is {got.shape} and must be {self.exact.shape}.")
        wide = got.astype(np.float64)
        anything = np.isneginf(self.low) & np.isposinf(self.high)
        fits = (self.low <= wide) & (wide <= self.high)
        right = anything | fits | (np.isnan(self.low) & np.isnan(wide))
        error = self._rel_error(wide)
        if right.all():
            return Verdict(True, error, "")
        at = tuple(int(i) for i in np.argwhere(~right)[0])
        message = (
            f"{int((~right).sum())} of {right.size} elements are wrong, first D{list(at)} = "
            f"{wide[at]:.6g}, expected {self.exact[at]:.6g} "
            f"(between {self.low[at]:.9g} and {self.high[at]:.9g})"
        )
        return Verdict(False, error, message)

    def _rel_error(self, wide: Wide) -> float:
        """‖D − exact‖F ÷ ‖exact‖F over the elements that are finite in float64."""
        finite = np.isfinite(self.exact)
        norm = float(np.linalg.norm(self.exact[finite])) or 1.0
        return float(np.linalg.norm(wide[finite] - self.exact[finite])) / norm


def expected(
    request: Request,
    arrays: Mapping[str, Any],
    rows: npt.NDArray[np.int64] | None = None,
) -> Expected:
    """The reference for a request whose operands are these arrays.

    Shapes   "a" […, m, k] and "b" […, k, n], n being the product's columns (both of a gate);
             parts' operands by their names, each broadcasting to […, m, n] of its place in the
             chain, "alpha" and "beta" numbers. With `rows` only those rows of the result are
             computed, from operands that still have all.
    Raises   InputError for a part that says no bound, or an operand that is missing.
    Cost     two matrix products on the CPU, one of them in float64.
    """
    operands = {name: np.asarray(value) for name, value in arrays.items()}
    if rows is not None:
        operands = {name: _sampled(name, each, request.m, rows) for name, each in operands.items()}
        operands["row"] = rows
    left, right = operands["a"].astype(np.float64), operands["b"].astype(np.float64)
    with np.errstate(all="ignore"):
        exact, bound = sums(left, right, TF32 if request.tf32 else request.a.dtype)
        x = _fp32(exact, bound, _may_overflow(left, right))
        for part in request.epilogue:
            if not isinstance(part, _Enclosing):
                raise InputError(f"{part.cpp} does not say what fp32 may make of a value.")
            exact, x = part.numpy(exact, operands), part.enclose(x, operands)
    low, high = _stored(x.low, request.out.dtype), _stored(x.high, request.out.dtype)
    return Expected(exact, low, high)


def _sampled(
    name: str, operand: npt.NDArray[Any], m: int, rows: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    """The rows of an operand that has a row for each of the result's."""
    if name == "b" or operand.ndim < 2 or operand.shape[-2] != m or m == 1:
        return operand
    return operand[..., rows, :]


def _fp32(exact: Wide, bound: Wide, lost: npt.NDArray[np.bool_]) -> Interval:
    """The sums that a kernel may have: anything where they may overflow on their way."""
    finite = np.isfinite(exact)
    low = np.where(finite, np.where(lost, -np.inf, exact - bound), exact)
    high = np.where(finite, np.where(lost, np.inf, exact + bound), exact)
    return Interval(low, high).rounded()


def _may_overflow(left: Wide, right: Wide) -> npt.NDArray[np.bool_]:
    """Where the absolute products add up to more than fp32 holds."""
    if left.size and right.size:
        largest = np.abs(left).max() * np.abs(right).max() * left.shape[-1]
        if not largest <= FP32.largest:
            return np.asarray(~(np.abs(left) @ np.abs(right) <= FP32.largest))
    return np.asarray(False)


def _stored(end: Wide, dtype: DType) -> Wide:
    """Rounded to the result's type, by way of fp32, as kernels do it."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return end.astype(np.float32).astype(dtype.numpy()).astype(np.float64)
