"""Interval: between which values fp32 arithmetic may end, where float64 says what is exact.

Each operation here is one of the kernel's: from all values its operands may have, it gives all that
its result may be, rounded once to fp32 or not at all (a compiler may fuse a product and a sum).
Where one result might be NaN and another not, as with inf − inf after an overflow, the interval is
ANYTHING, from −inf to inf, and says nothing. NaN in both ends means NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Wide = npt.NDArray[np.float64]
UNIT = 2.0**-24  # half the distance from 1 to the next fp32 number
_NORMAL = 2.0**-126  # the smallest normal number


@dataclass(frozen=True)
class Interval:
    """From `low` to `high`, element by element; both float64 and of one shape."""

    low: Wide
    high: Wide

    @staticmethod
    def of(values: Any) -> Interval:
        """Values that are exactly known."""
        wide = np.asarray(values, np.float64)
        return Interval(wide, wide)

    @staticmethod
    def hull(*candidates: Wide) -> Interval:
        """All between the least and the greatest; ANYTHING where some are NaN and some not."""
        every = np.stack(np.broadcast_arrays(*candidates))
        lost = np.isnan(every)
        low = np.where(lost, np.inf, every).min(0)
        high = np.where(lost, -np.inf, every).max(0)
        some, all_ = lost.any(0), lost.all(0)
        low = np.where(all_, np.nan, np.where(some, -np.inf, low))
        return Interval(low, np.where(all_, np.nan, np.where(some, np.inf, high)))

    def rounded(self) -> Interval:
        """The same before and after a rounding to fp32, which is monotone; it may overflow."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            low = self.low.astype(np.float32).astype(np.float64)
            high = self.high.astype(np.float32).astype(np.float64)
        return Interval(np.minimum(self.low, low), np.maximum(self.high, high))

    def widened(self, relative: Any, absolute: Any = 0.0) -> Interval:
        """Either end further out by a share of itself and by so much more, then rounded."""
        with np.errstate(over="ignore", invalid="ignore"):
            low = self.low - np.where(np.isinf(self.low), 0, np.abs(self.low) * relative + absolute)
            high = self.high + np.where(
                np.isinf(self.high), 0, np.abs(self.high) * relative + absolute
            )
        return Interval(low, high).rounded()

    def __add__(self, other: Interval) -> Interval:
        with np.errstate(invalid="ignore"):
            low, high = self.low + other.low, self.high + other.high
        return Interval.hull(low, high).rounded()

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            corners = [x * y for x in (self.low, self.high) for y in (other.low, other.high)]
        return Interval.hull(*corners).rounded()

    def __truediv__(self, other: Interval) -> Interval:
        """ANYTHING where the divisor may be 0 and need not be."""
        with np.errstate(all="ignore"):
            corners = [x / y for x in (self.low, self.high) for y in (other.low, other.high)]
        unsure = (other.low <= 0) & (other.high >= 0) & (other.low < other.high)
        whole = Interval.hull(*corners).rounded()
        return Interval(np.where(unsure, -np.inf, whole.low), np.where(unsure, np.inf, whole.high))

    def image(
        self,
        function: Callable[[Wide], Wide],
        turns: tuple[float, ...] = (),
        relative: Any = 0.0,
        absolute: float = 0.0,
    ) -> Interval:
        """What a function may give that rises or falls between `turns`, where it is known to turn.

        `relative` and `absolute` are what the kernel's own version errs by. Exact, as a function's
        extremes over a range lie at its ends and where it turns.
        """
        points = [self.low, self.high]
        points += [np.clip(np.full_like(self.low, turn), self.low, self.high) for turn in turns]
        with np.errstate(all="ignore"):
            values = [function(point) for point in points]
        return Interval.hull(*values).widened(relative, absolute)

    def ulps(self, count: float) -> Interval:
        """Further out by so many units in the last place, as tables of functions state errors.

        Results too small for a normal number may be cut to 0.
        """
        return self.widened(2 * count * UNIT, _NORMAL if count else 0.0)
