"""The fastest of several ways to do the same work, chosen as the benchmark will time it.

Under graph replay: launched one by one, short runs would wait for the host and all look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from tilewright.bench.protocol import Candidate, Settings, measure, quantile
from tilewright.errors import EngineError

if TYPE_CHECKING:
    from tilewright.bench.protocol import Timer, Timing

FINALISTS = 5
# Screening sorts out what is far behind; the final has intervals long enough for a GPU at its
# power cap to take each finalist's own clock.
_SCREENING = Settings(rounds=3, round_us=2_000.0, warmup_us=0.0, lead_in_us=1_000.0)
_FINAL = Settings(rounds=9, round_us=8_000.0, warmup_us=20_000.0, lead_in_us=50_000.0)


def finalists(us: Sequence[float], count: int = FINALISTS) -> list[int]:
    """The places of the `count` fastest, and always the first's, which comes first."""
    order = sorted(range(1, len(us)), key=lambda place: us[place])
    ahead = [place for place in order if us[place] < us[0]]
    behind = [place for place in order if us[place] >= us[0]]
    return [0, *(ahead + behind)[: count - 1]]


def winner(timings: Sequence[Timing]) -> int:
    """The place of the one furthest ahead of the first, or 0 where none is clearly ahead.

    Judged by the rounds' ratios, so that a drifting clock favours nobody; clearly ahead is in
    four rounds of five.
    """
    first = timings[0]
    ratios = {place: timing.ratios(first) for place, timing in enumerate(timings)}
    ahead = [place for place in ratios if place == 0 or quantile(ratios[place], 0.2) > 1]
    return max(ahead, key=lambda place: median(ratios[place]))


def fastest(runs: Sequence[Callable[[int], None]], timer: Timer, sets: int) -> tuple[int, int]:
    """The place of the fastest of `runs`, and how many of them ran.

    A run that fails with EngineError is left out. The first must not fail.
    Raises: EngineError when the first fails or the GPU does.
    Cost: about 20 ms for each, and 0.5 s for each finalist.
    """
    places = []
    for place, run in enumerate(runs):
        try:
            run(0)
        except EngineError:
            if place == 0:
                raise
            continue
        places.append(place)
    if len(places) == 1:
        return 0, 1
    screened = _measured(places, runs, timer, replace(_SCREENING, sets=sets))
    left = [places[i] for i in finalists([timing.us for timing in screened])]
    final = _measured(left, runs, timer, replace(_FINAL, sets=sets))
    return left[winner(final)], len(places)


def _measured(
    places: Sequence[int],
    runs: Sequence[Callable[[int], None]],
    timer: Timer,
    settings: Settings,
) -> list[Timing]:
    return measure([Candidate(f"choice {i}", runs[i]) for i in places], timer, settings)
