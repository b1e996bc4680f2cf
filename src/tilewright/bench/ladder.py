"""Climbing the ladder: every rung of a family on one problem, checked, counted or timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from tilewright.build import Artifact, Source, build
from tilewright.dtypes import DTYPES, DType, dtype_of
from tilewright.engines.choose import open_engine
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import InputError, ToolchainError
from tilewright.gpus import Gpu
from tilewright.ladder.python_rungs import CpuRung, TritonRung
from tilewright.ladder.rungs import KERNEL, RUNGS, KernelRung, select
from tilewright.launch import Launch
from tilewright.model.energy import energy_fields
from tilewright.model.intensity import tile_intensity
from tilewright.model.occupancy import blocks_per_sm
from tilewright.problem import Problem, whole

if TYPE_CHECKING:
    from tilewright.bench.record import Measurement
    from tilewright.emulator.report import Report
    from tilewright.engines.base import Buffer, Engine
    from tilewright.engines.gpu import GpuEngine
    from tilewright.ladder.rung import Rung
    from tilewright.verify import Verdict

SCHEMA = "ladder"
DEFAULT_FAMILY = "hgemm"
ON_GPU, IN_EMULATOR = (4096, 4096, 4096), (256, 384, 192)

Progress = Callable[[str, int, int], None]  # what runs, steps done, steps in all


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the result, its fields those of the JSON contract; None where they don't apply.

    `us` is the median time of a run in microseconds, `speedup` the rival's time ÷ this one,
    `rel_error` ‖C−R‖F ÷ ‖R‖F against float64; clock and power are those while it ran. Counts are
    of the whole launch: `instructions` PTX instructions issued by warps, wavefronts passes of
    shared memory, sectors 32 bytes each. `intensity` is FLOP per byte copied to shared memory.
    `sass` says how the machine code differs from the PTX that was counted; None where the two were
    not compared. Of the family cpu, `us` is the host's wall clock and `arch` its machine; nothing
    is counted. Nor is it in Triton's interpreter, whose rows say only whether the result is right.
    """

    name: str
    family: str
    engine: str
    arch: str
    dtype: str
    layout: str
    m: int
    n: int
    k: int
    status: str = "ok"
    reason: str | None = None
    correct: bool | None = None
    rel_error: float | None = None
    us: float | None = None
    tflops: float | None = None
    speedup: float | None = None
    rival: str | None = None
    sm_mhz: int | None = None
    power_w: float | None = None
    instructions: int | None = None
    shared_wavefronts: int | None = None
    shared_wavefronts_ideal: int | None = None
    shared_wavefronts_ldmatrix: int | None = None
    shared_wavefronts_ideal_ldmatrix: int | None = None
    shared_wavefronts_cp_async: int | None = None
    shared_wavefronts_ideal_cp_async: int | None = None
    shared_wavefronts_ldst: int | None = None
    shared_wavefronts_ideal_ldst: int | None = None
    wgmma_shared_bytes: int | None = None
    bulk_load_bytes: int | None = None
    bulk_store_bytes: int | None = None
    multicast_bytes: int | None = None
    l2_requests: int | None = None
    bank_conflicts: int | None = None
    global_sectors_load: int | None = None
    global_sectors_store: int | None = None
    global_sectors: int | None = None
    global_sectors_ideal: int | None = None
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    blocks_per_sm: int | None = None
    intensity: float | None = None
    sass: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Ladder:
    """The result: rows in the ladder's order, and what belongs to them.

    `reports` holds the emulator's report of each rung that ran there, `measurements` the records
    of what a GPU timed, `notes` what a reader should know (peers left out, unverified rules).
    Where families were run in types of their own, `parts` has a ladder for each type; `problem`
    is then the first one's.
    """

    engine: str  # what ran, for people
    problem: Problem
    rows: tuple[Row, ...]
    reports: dict[str, Report] = field(default_factory=dict)
    measurements: tuple[Measurement, ...] = ()
    notes: tuple[str, ...] = ()
    parts: tuple[Ladder, ...] = ()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Row:
        """The row of this name. Raises: KeyError."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def __str__(self) -> str:
        from tilewright.bench.ladder_table import to_text

        return to_text(self)

    @property
    def correct(self) -> bool:
        """No row is wrong."""
        return all(row.status != "wrong" for row in self.rows)

    @property
    def ran(self) -> bool:
        """Not every row is skipped."""
        return any(row.status != "skipped" for row in self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as the JSON document holds them: with the energy that follows from power."""
        return [asdict(row) | energy_fields(row) for row in self.rows]

    def __rich__(self) -> Any:
        from tilewright.bench.ladder_table import render

        return render(self)

    def _repr_html_(self) -> str:
        from tilewright.bench.ladder_table import to_html

        return to_html(self)


def climb(
    family: str | None = None,
    *,
    m: SupportsIndex | None = None,
    n: SupportsIndex | None = None,
    k: SupportsIndex | None = None,
    dtype: object = None,
    layout: str = "nn",
    rungs: str | Sequence[str] | None = (),
    engine: str = "auto",
    gpu: str | None = None,
    every_family: bool = False,
    seed: int = 0,
    inputs: str = "normal",
    progress: Progress | None = None,
) -> Ladder:
    """Runs the rungs of a family ("hgemm" if none is named) on C[m, n] = A[m, k] · B[k, n].

    Shapes   4096³ on a GPU and 256×384×192 in the emulator where m, n or k is not given.
    Types    the first that each rung takes where no dtype is given: "bf16" for hgemm (or "fp16"),
             "fp32" for simt and cpu. Sums are fp32; random operands from `seed` (`inputs` normal,
             uniform, integers or zeros). `layout` nn, nt, tn or tt says how A and B lie: nt is B
             stored [N, K].
    Raises   InputError for unknown names or a shape that no rung, or a rung that was named, does
             not take; EngineError; ToolchainError without NVRTC, and for a rung that was named
             and needs a library that is missing. A wrong result is a row.
    Cost     compiles each rung once and caches it; milliseconds a rung in the emulator at the
             default shape, seconds on a GPU.
    """
    names = (rungs,) if isinstance(rungs, str) else tuple(rungs or ())
    default = DEFAULT_FAMILY if family is None else family
    chosen = select(family if names else None if every_family else default, names)
    opened = open_engine(engine, gpu)
    groups = _groups(chosen, None if dtype is None else dtype_of(dtype), opened.name)
    defaults = ON_GPU if opened.name == "gpu" else IN_EMULATOR
    given = zip("mnk", (m, n, k), defaults, strict=True)
    rows, cols, depth = (whole(axis, default if x is None else x) for axis, x, default in given)
    problems = {kind: Problem(rows, cols, depth, kind, layout) for kind, _ in groups}
    if opened.name != "gpu":
        _check_room(problems.values())
    whys = {
        rung.name: why
        for (kind, _), these in groups.items()
        for rung in these
        if (why := rung.refusal(problems[kind], opened.shared_bytes_limit, opened.arch))
    }
    if whys and (names or len(whys) == len(chosen)):
        raise InputError(next(iter(whys.values())))
    absent = {rung.name: why for rung in chosen if (why := rung.missing())}
    if absent and names:
        raise ToolchainError(next(iter(absent.values())))
    reasons = absent | whys
    parts = []
    for number, ((kind, runs_on), these) in enumerate(groups.items()):
        tell = _share(progress, number, len(groups))
        run = Run(problems[kind], seed, inputs, tell)
        of_these = {rung.name: reasons[rung.name] for rung in these if rung.name in reasons}
        parts.append(_part(opened, runs_on, these, of_these, run))
    ladder = parts[0] if len(parts) == 1 else _joined(parts)
    if all(isinstance(rung, CpuRung) for rung in chosen) and (gpu or engine != "auto"):
        asked = f"gpu={gpu}" if gpu else f"engine={engine}"
        said = f"The family cpu runs on this host's own processor: {asked} changes nothing."
        ladder = replace(ladder, notes=(*ladder.notes, said))
    return ladder


def _check_room(problems: Iterable[Problem]) -> None:
    """Raises: InputError for matrices that this machine cannot hold, before any is made."""
    for problem in problems:
        try:
            np.empty(problem.bytes, np.uint8)  # not touched, so it costs nothing
        except (MemoryError, ValueError):  # ValueError: beyond what an address reaches
            raise InputError(
                f"{problem}: A, B and C take {problem.bytes / 2**30:,.0f} GiB, more than this "
                "machine's memory has; give a smaller shape."
            ) from None


def _groups(
    chosen: Sequence[Rung], dtype: DType | None, opened: str
) -> dict[tuple[DType, str], list[Rung]]:
    """The rungs by the type that they run in (this one, or the first that each takes) and by the
    engine that runs them."""
    groups: dict[tuple[DType, str], list[Rung]] = {}
    for rung in chosen:
        key = dtype or DTYPES[rung.dtypes[0]], rung.engine(opened)
        groups.setdefault(key, []).append(rung)
    return groups


def _share(progress: Progress | None, number: int, parts: int) -> Progress:
    """The progress of one of several parts, as progress of all."""

    def tell(what: str, done: int, total: int) -> None:
        if progress is not None:
            progress(what, number * total + done, parts * total)

    return tell


def _part(
    opened: GpuEngine | EmulatorEngine,
    runs_on: str,
    these: Sequence[Rung],
    reasons: dict[str, str],
    run: Run,
) -> Ladder:
    """The rungs of one type and engine, counted or timed; those with a reason are skipped."""
    if runs_on == "cpu":
        from tilewright.bench.host_rungs import climb_on_host

        return climb_on_host([it for it in these if isinstance(it, CpuRung)], reasons, run)
    if runs_on == "interpreter":
        from tilewright.bench.interpreted import climb_interpreted

        interpreted = [it for it in these if isinstance(it, TritonRung)]
        return climb_interpreted(interpreted, reasons, run)
    if isinstance(opened, EmulatorEngine):
        from tilewright.bench.counted_ladder import count_rungs

        kernels = [it for it in these if isinstance(it, KernelRung)]
        return count_rungs(opened, kernels, reasons, run)
    from tilewright.bench.contest import Conditions
    from tilewright.bench.timed_ladder import time_rungs

    conditions = Conditions(seed=run.seed, inputs=run.inputs)
    return time_rungs(opened, these, reasons, run.problem, conditions, run.progress)


def _joined(parts: Sequence[Ladder]) -> Ladder:
    """All rows in the ladder's order, peers first: families of one type are one part, and may lie
    apart."""
    first, place = parts[0], {name: place for place, name in enumerate(RUNGS)}
    every = [row for part in parts for row in part.rows]
    rows = sorted(every, key=lambda row: place.get(row.name, -1))
    reports = {name: report for part in parts for name, report in part.reports.items()}
    return Ladder(
        first.engine,
        first.problem,
        tuple(rows),
        {row.name: reports[row.name] for row in rows if row.name in reports},
        tuple(line for part in parts for line in part.measurements),
        tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        tuple(parts),
    )


@dataclass(frozen=True)
class Run:
    """What the rungs of one part run on."""

    problem: Problem
    seed: int
    inputs: str
    progress: Progress


def build_rung(rung: KernelRung, problem: Problem, arch: str) -> Artifact:
    """The rung compiled for the problem's type and layout, and a GPU of this architecture.

    Raises: ToolchainError.
    """
    source = Source(rung.file, rung.text, rung.defines(problem.dtype, problem.layout))
    return build(source, rung.target(arch))


def rung_launch(
    rung: KernelRung,
    artifact: Artifact,
    problem: Problem,
    buffers: tuple[Buffer, Buffer, Buffer],
    sms: int | None = None,
) -> Launch:
    """The launch that computes C = A·B into the third buffer, on a GPU of so many
    multiprocessors."""
    a, b, c = (buffer.address for buffer in buffers)
    return Launch(
        artifact,
        KERNEL,
        rung.grid(problem, sms),
        (rung.threads, 1, 1),
        rung.params(problem, a, b, c),
        rung.shared_bytes(problem.dtype),
        rung.cluster,
        rung.overlap,
    )


@dataclass(frozen=True)
class Place:
    """Where rows were made that no engine of kernels made: what they call it."""

    name: str
    arch: str


def identity(name: str, family: str, engine: Engine | Place, problem: Problem) -> dict[str, Any]:
    """The fields that every row has."""
    return {
        "name": name,
        "family": family,
        "engine": engine.name,
        "arch": engine.arch,
        "dtype": problem.dtype.name,
        "layout": problem.layout,
        "m": problem.m,
        "n": problem.n,
        "k": problem.k,
    }


def skipped(rung: Rung, engine: Engine | Place, problem: Problem, reason: str) -> Row:
    fields = identity(rung.name, rung.family, engine, problem)
    return Row(**fields, status="skipped", reason=reason)


def judged(verdict: Verdict) -> dict[str, Any]:
    """The fields that say whether the result is right."""
    return {
        "status": "ok" if verdict.correct else "wrong",
        "reason": verdict.message or None,
        "correct": verdict.correct,
        "rel_error": verdict.rel_error,
    }


def resources(
    rung: KernelRung, problem: Problem, launch: Launch, gpu: Gpu | None
) -> dict[str, Any]:
    """The fields known from the artifact; residency only for a GPU of the table."""
    used = launch.artifact.resources[KERNEL]
    shared = used.static_shared_bytes + launch.shared_bytes
    resident = blocks_per_sm(gpu, rung.threads, used.registers, shared).blocks if gpu else None
    return {
        "registers": used.registers,
        "spill_bytes": used.spill_bytes,
        "shared_bytes": shared,
        "blocks_per_sm": resident,
        "intensity": tile_intensity(rung.tile.bm, rung.tile.bn, problem.dtype.bytes),
    }
