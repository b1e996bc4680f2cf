"""Measuring many shapes: rows, records, and what they come to for each suite."""

from __future__ import annotations

import math
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tilewright.bench import host_rungs, suite_counted, suite_timed
from tilewright.bench.contest import Conditions
from tilewright.bench.inputs import distribution
from tilewright.bench.peers import PEERS
from tilewright.bench.suite_host import rows_on_host
from tilewright.bench.suites import Shape
from tilewright.bench.user_function import FunctionKernel
from tilewright.bench.user_kernel import CudaKernel
from tilewright.dtypes import DType
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import InputError
from tilewright.ladder.python_rungs import CpuRung
from tilewright.ladder.rung import Rung
from tilewright.ladder.rungs import KERNELS
from tilewright.model.energy import energy_fields

if TYPE_CHECKING:
    from tilewright.bench.record import Measurement
    from tilewright.engines.gpu import GpuEngine

_MOST_NOTES = 5  # on why rows were skipped

Progress = Callable[[str, int, int], None]
Keep = Callable[[Sequence["Measurement"]], None]
Each = Callable[["Plan", Shape, "Row"], Iterator["Row"]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One candidate at one shape, its fields those of the JSON document.

    `ratio` is the rival's time ÷ this one's (the median over rounds), with its p20 and p80;
    `ratios` the same to each peer by name. `roof` says what binds the problem ("launch",
    "memory" or "matrix"), `roof_us` its least time, `roof_share` the part of the time taken that
    this is. Clock, power, temperature and throttle reasons are those while the candidate ran.
    `version` is a peer's library and its choice, or how a kernel of the user's was launched;
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
    ratios: dict[str, float] | None = None
    version: str | None = None
    roof: str | None = None
    roof_us: float | None = None
    roof_share: float | None = None
    sm_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    throttle: tuple[str, ...] | None = None
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

    def never_ran(self, names: Iterable[str] = ()) -> bool:
        """Nothing ran, or one of these kernels did at no shape."""
        ran = {row.name for row in self.rows if row.status != "skipped"}
        return not ran or any(name not in ran for name in names)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as the JSON document holds them: with the energy that follows from power."""
        return [asdict(row) | energy_fields(row) for row in self.rows]


@dataclass(frozen=True)
class Plan:
    """What is to be measured: shapes under the name of their suite, kernels, conditions.

    `kernels` are the user's own; `against` names the peers (those that need no long tuning when
    empty); `roofs` measures what the GPU can do first; `budget_s` ends the run before a shape
    once so many seconds are spent.
    """

    shapes: tuple[tuple[str, Shape], ...]
    dtype: DType
    rungs: tuple[Rung, ...]
    kernels: tuple[CudaKernel | FunctionKernel, ...] = ()
    conditions: Conditions = field(default_factory=Conditions)
    against: tuple[str, ...] = ()
    roofs: bool = True
    noise: bool = False  # time the rival a second time, under the name "… again"
    budget_s: float | None = None

    @property
    def without_host(self) -> Plan | None:
        """What is left for the engine without the rungs of the host; None where nothing is."""
        others = tuple(rung for rung in self.rungs if not isinstance(rung, CpuRung))
        alone = self.rungs and not others and not self.kernels
        return None if alone else replace(self, rungs=others)

    @property
    def labels(self) -> dict[CudaKernel | FunctionKernel, str]:
        """What the tables call the user's kernels: by file where names repeat, else numbered."""
        names = Counter([*PEERS, *(kernel.label for kernel in self.kernels)])
        found: dict[CudaKernel | FunctionKernel, str] = {}
        for kernel in self.kernels:
            name = kernel.label if names[kernel.label] == 1 else kernel.word.partition(",")[0]
            same = sum(other.partition(" #")[0] == name for other in found.values())
            found[kernel] = f"{name} #{same + 1}" if same else name
        return found


def measure_suites(
    engine: GpuEngine | EmulatorEngine, plan: Plan, progress: Progress, keep: Keep
) -> SuiteRun:
    """Measures every shape on a GPU, or counts the small ones in the emulator; rungs of the host
    are timed there, at each shape after what the engine does with it.

    `keep` is called with the records of each shape as soon as it is measured, so that a run
    that is cut off loses nothing.
    Raises: InputError for a peer in `against` that is not there; EngineError when the GPU fails.
    """
    distribution(plan.conditions.inputs)
    if plan.conditions.rounds < 1:
        raise InputError(f"rounds={plan.conditions.rounds} must be at least 1.")
    start = time.monotonic()
    rows: list[Row] = []
    notes: list[str] = []
    makers: list[Each] = [partial(rows_on_host, keep)]
    if (of_engine := plan.without_host) is not None:
        if isinstance(engine, EmulatorEngine):
            makers.insert(0, partial(suite_counted.count, engine))
        else:
            progress("peers and roofs", 0, len(plan.shapes))
            timed, notes = suite_timed.timer(engine, of_engine, keep)
            makers.insert(0, timed)
    for number, (name, shape) in enumerate(plan.shapes):
        if plan.budget_s is not None and time.monotonic() - start > plan.budget_s:
            left = len(plan.shapes) - number
            notes.append(f"The budget of {plan.budget_s:g} s is spent; {left} shapes are left out.")
            break
        progress(str(shape), number, len(plan.shapes))
        if isinstance(engine, EmulatorEngine):
            engine.progress = partial(_blocks, progress, str(shape), number, len(plan.shapes))
        blank = _blank(engine, plan, name, shape)
        for rows_of in makers:
            rows += rows_of(plan, shape, blank)
    labels = set(plan.labels.values())
    launched = (row.version for row in rows if row.name in labels and row.version)
    notes += list(dict.fromkeys(launched))[:5]
    skipped = Counter(row.reason for row in rows if row.status == "skipped")
    notes += [f"{times} × skipped: {reason}" for reason, times in skipped.most_common(_MOST_NOTES)]
    if (more := len(skipped) - _MOST_NOTES) > 0:
        notes.append(f"{more} more reasons to skip are in --json and --csv.")
    if of_engine is not None and isinstance(engine, EmulatorEngine):
        notes.append("Without a GPU there are no times: small shapes are counted in the emulator.")
        if plan.against or plan.noise:
            notes.append("--against and --noise are of a timing; nothing here uses them.")
    title = host_rungs.title() if of_engine is None else engine.title
    return SuiteRun(title, tuple(rows), tuple(notes))


def _blocks(progress: Progress, what: str, number: int, shapes: int, done: int, total: int) -> None:
    """The emulator's blocks of one of several shapes, as progress."""
    progress(what, number * total + done, shapes * total)


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
        inputs=distribution(plan.conditions.inputs)[0],
        cache="cold" if plan.conditions.cold else "warm",
        repro=_repro(plan, shape, engine.name),
    )


def _repro(plan: Plan, shape: Shape, engine: str) -> str:
    """The command that measures this shape again as it was measured here."""
    how, usual = plan.conditions, Conditions()
    words = ["tilewright", "bench", "--shape", str(shape), "--dtype", plan.dtype.name]
    usual_rungs = {name for name, rung in KERNELS.items() if plan.dtype.name in rung.dtypes}
    if plan.kernels or {rung.name for rung in plan.rungs} != usual_rungs:
        words += [word for rung in plan.rungs for word in ("--rung", rung.name)]
    words += [word for kernel in plan.kernels for word in ("--kernel", kernel.word)]
    words += [word for name in plan.against for word in ("--against", name)]
    words += ["--inputs", how.inputs] if how.inputs != usual.inputs else []
    words += [] if how.cold else ["--cache", "warm"]
    words += ["--seed", str(how.seed)] if how.seed != usual.seed else []
    words += ["--rounds", str(how.rounds)] if how.rounds != usual.rounds else []
    words += ["--noise"] if plan.noise else []
    words += [] if plan.roofs else ["--no-roofs"]
    words += ["--engine", "emulator"] if engine == "emulator" else []
    return shlex.join(words)
