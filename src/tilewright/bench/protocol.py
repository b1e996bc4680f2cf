"""How candidates are timed: interleaved round by round, so that only ratios need to be trusted.

Two GPUs of one name differ by more than two good kernels do, and one GPU's clock moves with its
temperature and with what ran just before. So all candidates run in one process, each once a
round, in an order that rotates; a round's interval is long against launch latency and its runs
walk over inputs that do not fit in the L2 cache. Ratios are taken within a round.

Nothing here knows CUDA: a `Timer` gives marks, waits and captures, a candidate enqueues a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.errors import EngineError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEFAULT_ROUNDS = 11
DEFAULT_ROUND_US = 12_000.0
DEFAULT_WARMUP_US = 100_000.0
_CALIBRATION_US = 2_000.0
DEFAULT_LEAD_IN_US = 50.0
_MOST_RUNS = 1 << 20  # in a calibration; launching one takes the host a microsecond at least
_GRAPH_NODES = 2048  # runs in one graph; longer rounds replay it several times


class Replayable(Protocol):
    def replay(self) -> None: ...


class Timer(Protocol):
    """What times the work; engines.gpu.GpuEngine is one. Marks are its own objects."""

    def record(self) -> Any: ...
    def elapsed_us(self, start: Any, end: Any) -> float: ...
    def wait(self, mark: Any) -> None: ...
    def synchronize(self) -> None: ...
    def capture(self, work: Callable[[], None]) -> Replayable: ...


@dataclass(frozen=True)
class Candidate:
    """`enqueue(i)` enqueues one run on input set i, without waiting for it.

    `capturable` says whether its work may be captured in a graph.
    """

    name: str
    enqueue: Callable[[int], None]
    capturable: bool = True


@dataclass(frozen=True)
class Settings:
    """`rounds` intervals of about `round_us` a candidate; `sets` input sets to walk over.

    Each interval follows `lead_in_us` of untimed runs of the same candidate: a GPU at its power
    cap takes that long to leave the clock of the candidate before for this one's own.

    Raises: InputError for values that measure nothing.
    """

    sets: int = 1
    rounds: int = DEFAULT_ROUNDS
    round_us: float = DEFAULT_ROUND_US
    warmup_us: float = DEFAULT_WARMUP_US
    lead_in_us: float = DEFAULT_LEAD_IN_US

    def __post_init__(self) -> None:
        for name in ("sets", "rounds"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} must be at least 1.")
        if not 0 < self.round_us < math.inf:
            raise InputError(f"round_us={self.round_us} must be above 0.")
        for name in ("warmup_us", "lead_in_us"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name}={getattr(self, name)} must be 0 or above.")


@dataclass(frozen=True)
class Timing:
    """What one candidate took: `us_samples` holds, for each round, microseconds a run.

    `readings` is what was observed in each of these intervals.
    """

    name: str
    us_samples: tuple[float, ...]
    runs_per_round: int
    method: str
    readings: tuple[Any, ...] = ()

    @property
    def us(self) -> float:
        """The median over rounds."""
        return median(self.us_samples)

    @property
    def p20(self) -> float:
        return quantile(self.us_samples, 0.2)

    @property
    def p80(self) -> float:
        return quantile(self.us_samples, 0.8)

    def ratios(self, rival: Timing) -> tuple[float, ...]:
        """How many times faster than the rival, for each round. Raises: InputError unless both
        were measured over the same rounds."""
        if len(self.us_samples) != len(rival.us_samples):
            raise InputError(
                f"{self.name} has {len(self.us_samples)} rounds and {rival.name} has "
                f"{len(rival.us_samples)}: only timings of one measurement can be compared."
            )
        pairs = zip(rival.us_samples, self.us_samples, strict=True)
        return tuple(theirs / ours for theirs, ours in pairs)

    def ratio(self, rival: Timing) -> float:
        """How many times faster than the rival: the median of the rounds' ratios."""
        return median(self.ratios(rival))


def quantile(values: Sequence[float], fraction: float) -> float:
    """The quantile with linear interpolation, as NumPy's default."""
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def input_sets(bytes_per_set: int, l2_bytes: int, memory_limit_bytes: int) -> int:
    """How many input sets to walk over so that together they are at least twice the L2 cache.

    `bytes_per_set` is what one run reads and writes. Raises: InputError when that many do not
    fit into `memory_limit_bytes`.
    """
    if bytes_per_set < 1:
        raise InputError(f"bytes_per_set={bytes_per_set} must be at least 1.")
    sets = max(1, -(-2 * l2_bytes // bytes_per_set))
    if sets * bytes_per_set > memory_limit_bytes:
        raise InputError(
            f"{sets} input sets of {bytes_per_set} bytes do not fit into the "
            f"{memory_limit_bytes} bytes of memory there are; measure a smaller problem."
        )
    return sets


def measure(
    candidates: Sequence[Candidate],
    timer: Timer,
    settings: Settings | None = None,
    observe: Callable[[], object] | None = None,
) -> list[Timing]:
    """Times the candidates against each other; timings come in the candidates' order.

    `observe` (telemetry, say) is called once in each timed interval, while the work runs.
    Raises: EngineError for a time that is no positive number; InputError for no candidates or
    two of one name.
    Cost: about rounds × round_us for each candidate, its warm-up, and one graph capture.
    """
    settings = settings or Settings()
    names = [candidate.name for candidate in candidates]
    if not names or len(set(names)) != len(names):
        raise InputError(f"candidates={names} must be one or more, each name once.")
    runners = [_Runner(candidate, timer, settings) for candidate in candidates]
    samples: list[list[float]] = [[] for _ in runners]
    readings: list[list[object]] = [[] for _ in runners]
    for turn in range(settings.rounds):
        for which in turn_order(turn, len(runners)):
            samples[which].append(runners[which].timed_round(observe, readings[which]))
    return [
        Timing(runner.name, tuple(taken), runner.runs, runner.method(), tuple(seen))
        for runner, taken, seen in zip(runners, samples, readings, strict=True)
    ]


def turn_order(turn: int, count: int) -> list[int]:
    """The order of `count` candidates in round `turn`, each at every place equally often.

    A GPU still carries the heat of the candidate before, so it also matters who follows whom:
    over `count` rounds (twice as many for an odd number) each follows each other equally often.
    Source: E. J. Williams, Experimental designs balanced for the estimation of residual effects
    of treatments, 1949.
    """
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(count)]
    if count % 2 and turn // count % 2:
        zigzag = [-place for place in zigzag]
    return [(turn + place) % count for place in zigzag]


class _Runner:
    """One candidate, warmed up, calibrated and captured, ready for its rounds."""

    def __init__(self, candidate: Candidate, timer: Timer, settings: Settings) -> None:
        self.name = candidate.name
        self._candidate = candidate
        self._timer = timer
        self._settings = settings
        run_us = self._warm_up()
        sets = settings.sets
        # Whole walks over the sets, so that every round reads every set equally often.
        self.runs = sets * math.ceil(settings.round_us / run_us / sets)
        self._lead_in = math.ceil(settings.lead_in_us / run_us)
        self._graph: Replayable | None = None
        self._replays = self._lead_in_replays = 1
        self._why_loop = "not capturable"
        if candidate.capturable:
            self._capture()

    def _warm_up(self) -> float:
        """Runs for `warmup_us` and calibrates; returns microseconds a run."""
        self._candidate.enqueue(0)  # loads modules and creates handles, outside any interval
        self._timer.synchronize()
        runs, spent_us = 1, 0.0
        while True:
            interval_us = self._interval(partial(self._loop, 0, runs))
            spent_us += interval_us
            if interval_us >= _CALIBRATION_US and spent_us >= self._settings.warmup_us:
                return interval_us / runs
            if interval_us < _CALIBRATION_US:
                runs *= 2
            if runs > _MOST_RUNS:
                raise EngineError(
                    f"{runs // 2} runs of {self.name} took {interval_us} us, which no kernel can: "
                    "its work is not between the marks, or the clock stands still."
                )

    def _capture(self) -> None:
        """A graph of whole walks over the sets, and how often a round replays it."""
        sets = self._settings.sets
        nodes = sets * math.ceil(min(self.runs, _GRAPH_NODES) / sets)
        try:
            self._graph = self._timer.capture(partial(self._loop, 0, nodes))
        except EngineError as error:
            self._why_loop = str(error)
            return
        self._graph.replay()  # its first launch uploads it
        # Launched one by one, short runs wait for the host: the graph's own time counts.
        replay_us = self._interval(self._graph.replay)
        self._replays = math.ceil(self._settings.round_us / replay_us)
        self._lead_in_replays = math.ceil(self._settings.lead_in_us / replay_us)
        self.runs = nodes * self._replays

    def timed_round(self, observe: Callable[[], object] | None, seen: list[object]) -> float:
        """Microseconds a run in one interval, behind a lead-in of the same work."""
        self._work(-self._lead_in, 0, self._lead_in_replays)
        return self._interval(self._round, observe, seen) / self.runs

    def _round(self) -> None:
        self._work(0, self.runs, self._replays)

    def _work(self, first: int, end: int, replays: int) -> None:
        if self._graph is None:
            self._loop(first, end)
        else:
            for _ in range(replays):
                self._graph.replay()

    def _loop(self, first: int, end: int) -> None:
        for run in range(first, end):
            self._candidate.enqueue(run % self._settings.sets)

    def _interval(
        self,
        work: Callable[[], None],
        observe: Callable[[], object] | None = None,
        seen: list[object] | None = None,
    ) -> float:
        start = self._timer.record()
        work()
        end = self._timer.record()
        if observe is not None and seen is not None:
            self._timer.wait(start)
            seen.append(observe())
        self._timer.synchronize()
        elapsed_us = self._timer.elapsed_us(start, end)
        if not 0 < elapsed_us < math.inf:
            raise EngineError(
                f"{self.name} took {elapsed_us} us, which is no time: its work is not between "
                "the marks, or the clock is broken."
            )
        return elapsed_us

    def method(self) -> str:
        """How the figure was made, for the record."""
        sets, rounds = self._settings.sets, self._settings.rounds
        how = "graph replay" if self._graph else f"stream loop ({self._why_loop})"
        lead_in = f", each after {self._settings.lead_in_us / 1e3:g} ms of its own runs"
        what = f"{rounds} interleaved rounds of {self.runs} runs over {sets} input sets"
        return f"{how}, {what}{lead_in}"


def noise_floor(first: Timing, again: Timing) -> float:
    """How far two timings of the same work lie apart, as a fraction: 0.004 is 0.4 %.

    The larger of the distance of their ratio from 1 and half the p20 to p80 range of the rounds'
    ratios. A difference between candidates below it is noise.
    """
    ratios = again.ratios(first)
    spread = quantile(ratios, 0.8) - quantile(ratios, 0.2)
    return max(abs(median(ratios) - 1), spread / 2)


def measure_noise(candidate: Candidate, timer: Timer, settings: Settings | None = None) -> float:
    """The noise floor of this GPU now: the candidate timed against itself."""
    again = Candidate(f"{candidate.name} again", candidate.enqueue, candidate.capturable)
    first, second = measure([candidate, again], timer, settings)
    return noise_floor(first, second)
