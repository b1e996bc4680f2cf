"""How long a launch will take, told once where that is hours."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from time import monotonic

from tilewright.errors import LongRunWarning

_AFTER_S = 5.0  # of running, by when the speed is known
_WORTH_A_WORD_S = 3600.0
_UNITS = ((86400 * 365.25, "years"), (86400.0, "days"), (3600.0, "hours"))


class Estimate:
    """A progress that passes on what it is told; it warns once, with LongRunWarning."""

    def __init__(self, inner: Callable[[int, int], None] | None) -> None:
        self._inner = inner
        self._start = monotonic()
        self._told = False

    def __call__(self, done: int, total: int) -> None:
        passed = monotonic() - self._start
        if done and not self._told and passed >= _AFTER_S:
            self._told = True
            left = passed / done * (total - done)
            if left > _WORTH_A_WORD_S:
                # 4: over run and emulate to the caller of emulate
                warnings.warn(_words(done, total, passed, left), LongRunWarning, stacklevel=4)
        if self._inner is not None:
            self._inner(done, total)


def _words(done: int, total: int, passed: float, left: float) -> str:
    size, unit = next(one for one in _UNITS if left >= one[0])
    return (
        f"{done:,} of {total:,} blocks took {passed:.0f} s, so the rest will take about "
        f"{left / size:,.1f} {unit}; "
        'blocks="sample:1000" (--blocks sample:1000) runs a part of them.'
    )
