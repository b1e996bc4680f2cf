"""Measuring many shapes: rows, records, and what they come to for each suite."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilewright.bench.contest import Conditions, enter_peer, enter_rung, hold, set_up
from tilewright.bench.inputs import distribution
from tilewright.bench.ladder import climb
from tilewright.bench.peers import found_peers
from tilewright.bench.protocol import quantile
from tilewright.bench.suites import Shape
from tilewright.dtypes import DType
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import EngineError, InputError
from tilewright.ladder.rungs import Rung

if TYPE_CHECKING:
    from tilewright.bench.contest import Contest, Result
    from tilewright.bench.record import Measurement
    from tilewright.engines.gpu import GpuEngine

_EMULATED_FLOPS = 3e9  # above, counting takes longer than anybody waits: about 1500³

Progress = Callable[[str, int, int], None]
Keep = Callable[[Sequence["Measurement"]], None]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One candidate at one shape, its fields those of the JSON document.

    `ratio` is the rival's time ÷ this one's (the median over rounds), with its p20 and p80;
    `repro` the command that measures this shape again.
    """

    suite: str
    name: str
    engine: str
    arch: str
    dtype: str
    layout: str
    m: int
    n: int
    k: int
    aligned: bool
    inputs: str
    cache: str
    status: str = "ok"
    reason: str | None = None
    correct: bool | None = None
    rel_error: float | None = None
    us: float | None = None
    us_p20: float | None = None
    us_p80: float | None = None
    tflops: float | None = None
    rival: str | None = None
    ratio: float | None = None
    ratio_p20: float | None = None
    ratio_p80: float | None = None
    method: str | None = None
    shared_wavefronts: int | None = None
    bank_conflicts: int | None = None
    global_sectors: int | None = None
    repro: str = ""


@dataclass(frozen=True)
class Summary:
    """A candidate over the shapes of one suite and one alignment: never pooled further."""

    suite: str
    name: str
    aligned: bool
    shapes: int
    geometric_mean: float  # of the ratios to the rival
    worst: float
    worst_shape: str


@dataclass(frozen=True)
class SuiteRun:
    """All rows in the order they were measured."""

    engine: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def correct(self) -> bool:
        return all(row.status != "wrong" for row in self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        return [asdict(row) for row in self.rows]


@dataclass(frozen=True)
class Plan:
    """What is to be measured: shapes under the name of their suite, kernels, conditions.

    `against` keeps only these peers (all that are found when empty); `budget_s` ends the run
    before a shape once so many seconds are spent.
    """

    shapes: tuple[tuple[str, Shape], ...]
    dtype: DType
    rungs: tuple[Rung, ...]
    conditions: Conditions = field(default_factory=Conditions)
    against: tuple[str, ...] = ()
    noise: bool = False  # time the rival a second time, under the name "… again"
    budget_s: float | None = None


def measure_suites(
    engine: GpuEngine | EmulatorEngine, plan: Plan, progress: Progress, keep: Keep
) -> SuiteRun:
    """Measures every shape on a GPU, or counts the small ones in the emulator.

    `keep` is called with the records of each shape as soon as it is measured, so that a run
    that is cut off loses nothing.
    Raises: InputError for a peer in `against` that is not there; EngineError when the GPU fails.
    """
    distribution(plan.conditions.inputs)
    each = _counted if isinstance(engine, EmulatorEngine) else _timer(engine, plan, keep)
    rows: list[Row] = []
    notes: list[str] = []
    start = time.monotonic()
    for number, (name, shape) in enumerate(plan.shapes):
        if plan.budget_s is not None and time.monotonic() - start > plan.budget_s:
            left = len(plan.shapes) - number
            notes.append(f"The budget of {plan.budget_s:g} s is spent; {left} shapes are left out.")
            break
        progress(str(shape), number, len(plan.shapes))
        blank = _blank(engine, plan, name, shape)
        rows += each(plan, shape, blank)
    skipped = Counter(row.reason for row in rows if row.status == "skipped")
    notes += [f"{times} × skipped: {reason}" for reason, times in skipped.most_common(5)]
    if isinstance(engine, EmulatorEngine):
        notes.append("Without a GPU there are no times: small shapes are counted in the emulator.")
    return SuiteRun(engine.title, tuple(rows), tuple(notes))


def summarise(rows: Sequence[Row]) -> list[Summary]:
    """Geometric mean and worst shape of each candidate's ratios, by suite and alignment."""
    groups: dict[tuple[str, bool, str], list[Row]] = {}
    for row in rows:
        if row.ratio is not None and row.name != row.rival:
            groups.setdefault((row.suite, row.aligned, row.name), []).append(row)
    return [_summary(group) for group in groups.values()]


def _summary(rows: Sequence[Row]) -> Summary:
    ratios = [row.ratio for row in rows if row.ratio is not None]
    worst = min(rows, key=lambda row: row.ratio or 0)
    return Summary(
        rows[0].suite,
        rows[0].name,
        rows[0].aligned,
        len(rows),
        math.exp(sum(map(math.log, ratios)) / len(ratios)),
        min(ratios),
        str(Shape(worst.m, worst.n, worst.k, worst.layout)),
    )


def _blank(engine: GpuEngine | EmulatorEngine, plan: Plan, suite: str, shape: Shape) -> Row:
    how = plan.conditions
    words = ["tilewright bench", f"--shape {shape}", f"--dtype {plan.dtype.name}"]
    words += [f"--inputs {how.inputs}"] if how.inputs != "normal" else []
    words += [] if how.cold else ["--cache warm"]
    words += [f"--seed {how.seed}"] if how.seed else []
    return Row(
        suite=suite,
        name="",
        engine=engine.name,
        arch=engine.arch,
        dtype=plan.dtype.name,
        layout=shape.layout,
        m=shape.m,
        n=shape.n,
        k=shape.k,
        aligned=shape.aligned,
        inputs=distribution(how.inputs)[0],
        cache="cold" if how.cold else "warm",
        repro=" ".join(words),
    )


# --- on a GPU -----------------------------------------------------------------------------


def _timer(
    engine: GpuEngine, plan: Plan, keep: Keep
) -> Callable[[Plan, Shape, Row], Iterator[Row]]:
    peers, _ = found_peers(engine)
    names = [peer.name for peer in peers]
    if missing := [name for name in plan.against if name not in names]:
        raise InputError(
            f"against={missing[0]!r} is not here; found: {', '.join(names) or 'none'}."
        )
    chosen = [peer for peer in peers if not plan.against or peer.name in plan.against]

    def each(plan: Plan, shape: Shape, blank: Row) -> Iterator[Row]:
        problem = shape.problem(plan.dtype)
        try:
            arena = set_up(engine, problem, plan.conditions)
        except InputError as error:  # too large for this GPU; the other shapes are not
            yield replace(blank, name="all", status="skipped", reason=str(error))
            return
        contestants = []
        for peer in chosen:
            try:
                contestants.append(enter_peer(peer, arena))
            except (EngineError, InputError) as error:
                yield replace(blank, name=peer.name, status="skipped", reason=str(error))
        for rung in plan.rungs:
            if reason := rung.refusal(problem):
                yield replace(blank, name=rung.name, status="skipped", reason=reason)
            else:
                contestants.append(enter_rung(rung, arena))
        if plan.noise and contestants:
            first = contestants[0]
            contestants.append(replace(first, name=f"{first.name} again"))
        contest = hold(arena, contestants, [peer.name for peer in chosen])
        keep([result.line for result in contest.results if result.line])
        for result in contest.results:
            yield _timed_row(blank, problem.flops, contest, result)

    return each


def _timed_row(blank: Row, flops: int, contest: Contest, result: Result) -> Row:
    verdict, timing = result.verdict, result.timing
    row = replace(
        blank,
        name=result.contestant.name,
        status="ok" if verdict.correct else "wrong",
        reason=verdict.message or None,
        correct=verdict.correct,
        rel_error=verdict.rel_error,
    )
    if timing is None or not verdict.correct:
        return row
    row = replace(
        row,
        us=timing.us,
        us_p20=timing.p20,
        us_p80=timing.p80,
        tflops=flops / timing.us / 1e6,
        method=timing.method,
    )
    if contest.rival is None:
        return row
    ratios = timing.ratios(contest.rival)
    return replace(
        row,
        rival=contest.rival.name,
        ratio=timing.ratio(contest.rival),
        ratio_p20=quantile(ratios, 0.2),
        ratio_p80=quantile(ratios, 0.8),
    )


# --- in the emulator ----------------------------------------------------------------------


def _counted(plan: Plan, shape: Shape, blank: Row) -> Iterator[Row]:
    problem = shape.problem(plan.dtype)
    for rung in plan.rungs:
        row = replace(blank, name=rung.name)
        reason = rung.refusal(problem)
        if reason is None and problem.flops > _EMULATED_FLOPS:
            reason = f"{shape} is too large to be counted in reasonable time; it needs a GPU."
        if reason is not None:
            yield replace(row, status="skipped", reason=reason)
            continue
        (counted,) = climb(
            m=shape.m, n=shape.n, k=shape.k, dtype=plan.dtype, rungs=rung.name, engine="emulator"
        )
        yield replace(
            row,
            status=counted.status,
            reason=counted.reason,
            correct=counted.correct,
            rel_error=counted.rel_error,
            shared_wavefronts=counted.shared_wavefronts,
            bank_conflicts=counted.bank_conflicts,
            global_sectors=counted.global_sectors,
        )
