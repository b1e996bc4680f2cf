"""One shape on a GPU: contestants checked, timed against each other, checked again, recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.bench import record, telemetry, user_kernel
from tilewright.bench.inputs import distribution, logical, operands
from tilewright.bench.ladder import build_rung, rung_launch
from tilewright.bench.protocol import (
    DEFAULT_ROUNDS,
    Candidate,
    Settings,
    Timing,
    input_sets,
    measure,
)
from tilewright.bench.rung_code import hash_of
from tilewright.launch import Launch
from tilewright.verify import Verdict, judge, oracle

if TYPE_CHECKING:
    from tilewright.bench.peers import Peer
    from tilewright.bench.telemetry import Telemetry
    from tilewright.bench.user_kernel import CudaKernel
    from tilewright.engines.base import Buffer
    from tilewright.engines.gpu import GpuEngine
    from tilewright.ladder.rungs import KernelRung
    from tilewright.problem import Problem
    from tilewright.verify import Oracle

_MEMORY_SHARE = 0.8  # of the memory that is free, for all input sets together


@dataclass(frozen=True)
class Conditions:
    """How a shape is measured. Cold inputs walk over twice the L2 cache, warm ones are one set."""

    seed: int = 0
    inputs: str = "normal"
    cold: bool = True
    rounds: int = DEFAULT_ROUNDS
    round_us: float = 12_000.0
    lead_in_us: float = 100_000.0  # at its power cap an H200 takes tens of ms to change its clock


@dataclass(frozen=True)
class Contestant:
    """A rung or a peer: `enqueue(i)` runs it on input set i.

    `deliver(i)` brings the result of that run into C where the run itself does not.
    """

    name: str
    enqueue: Callable[[int], None]
    version: str | None = None  # of a peer's library; how a kernel of the user's is launched
    source_hash: str | None = None  # of a kernel of ours
    launch: Launch | None = None
    deliver: Callable[[int], None] | None = None
    made_by: str | None = None  # what compiled it, for the record, where our build did not
    poison_byte: int = 0xFF  # what C is filled with before a run that is checked


@dataclass(frozen=True)
class Arena:
    """A problem on the GPU: input sets of A, B and C, and what C must be."""

    engine: GpuEngine
    problem: Problem
    conditions: Conditions
    reference: Oracle
    a: list[Buffer]
    b: list[Buffer]
    c: list[Buffer]

    def verdict(self, contestant: Contestant) -> Verdict:
        """Whether one run on fresh, poisoned output is right, for the first and last set."""
        verdicts = []
        for which in {0, len(self.c) - 1}:
            self.engine.refill(self.c[which], contestant.poison_byte)
            contestant.enqueue(which)
            if contestant.deliver is not None:
                contestant.deliver(which)
            verdicts.append(judge(self.engine.download(self.c[which]), self.reference))
        return max(verdicts, key=lambda verdict: (not verdict.correct, verdict.rel_error))


@dataclass(frozen=True)
class Result:
    """What came of a contestant: no timing and no line if it was wrong before it was timed."""

    contestant: Contestant
    verdict: Verdict
    timing: Timing | None
    line: record.Measurement | None


@dataclass(frozen=True)
class Contest:
    """The results in the order of entry; `rival` is the timing that the ratios refer to."""

    results: tuple[Result, ...]
    rival: Timing | None


def set_up(engine: GpuEngine, problem: Problem, conditions: Conditions) -> Arena:
    """Operands on the GPU and their float64 product.

    Raises: InputError when the input sets do not fit into the GPU's memory.
    """
    limit = int(engine.free_bytes() * _MEMORY_SHARE)
    sets = input_sets(problem.bytes, engine.l2_bytes if conditions.cold else 0, limit)
    a, b = operands(problem, conditions.inputs, conditions.seed)
    shape, dtype = (problem.m, problem.n), problem.dtype.numpy()
    return Arena(
        engine,
        problem,
        conditions,
        oracle(*logical(problem, a, b), problem.dtype, conditions.seed),
        [engine.upload(a) for _ in range(sets)],
        [engine.upload(b) for _ in range(sets)],
        [engine.empty(shape, dtype) for _ in range(sets)],
    )


def enter_peer(peer: Peer, arena: Arena) -> Contestant:
    bound = peer.bind(arena.a, arena.b, arena.c, arena.problem)
    return Contestant(peer.name, bound.enqueue, version=bound.version, deliver=bound.deliver)


def enter_rung(rung: KernelRung, arena: Arena) -> Contestant:
    engine, problem = arena.engine, arena.problem
    artifact = build_rung(rung, problem, engine.arch)
    launches = [
        rung_launch(rung, artifact, problem, buffers, engine.sms)
        for buffers in zip(arena.a, arena.b, arena.c, strict=True)
    ]

    def enqueue(which: int) -> None:
        engine.launch(launches[which % len(launches)])

    return Contestant(rung.name, enqueue, source_hash=hash_of(rung), launch=launches[0])


def enter_kernel(kernel: CudaKernel, arena: Arena) -> Contestant:
    """Raises: InputError when it cannot be told how to launch the kernel on this problem;
    CompileError."""
    engine = arena.engine
    planned = user_kernel.plan(kernel, arena.problem, engine.arch)
    launches = [
        user_kernel.launch(planned, *buffers)
        for buffers in zip(arena.a, arena.b, arena.c, strict=True)
    ]
    return Contestant(
        kernel.label,
        lambda which: engine.launch(launches[which % len(launches)]),
        version=user_kernel.describe(planned),
        source_hash=kernel.source_hash,
        launch=launches[0],
        poison_byte=planned.poison_byte,
    )


def hold(arena: Arena, contestants: Sequence[Contestant], rivals: Sequence[str]) -> Contest:
    """Checks all, times those that are right against each other, and checks these again.

    The first of `rivals` that was timed is the one that ratios refer to.
    Raises: EngineError when the GPU fails.
    """
    verdicts = {contestant.name: arena.verdict(contestant) for contestant in contestants}
    timed = [contestant for contestant in contestants if verdicts[contestant.name].correct]
    timings = _timings(arena, timed)
    verdicts |= {contestant.name: arena.verdict(contestant) for contestant in timed}
    right = [contestant for contestant in timed if verdicts[contestant.name].correct]
    rival = next((c for name in rivals for c in right if c.name == name), None)
    taken = record.now()
    results = []
    for contestant in contestants:
        name = contestant.name
        line = None
        if name in timings:
            reference = (rival, timings[rival.name]) if rival else None
            line = _line(
                arena,
                contestant,
                verdicts[name],
                timings[name],
                telemetry.typical(timings[name].readings),
                reference,
                taken,
            )
        results.append(Result(contestant, verdicts[name], timings.get(name), line))
    return Contest(tuple(results), timings[rival.name] if rival else None)


def _timings(arena: Arena, contestants: Sequence[Contestant]) -> dict[str, Timing]:
    if not contestants:
        return {}
    how = arena.conditions
    settings = Settings(len(arena.c), how.rounds, round_us=how.round_us, lead_in_us=how.lead_in_us)
    candidates = [Candidate(contestant.name, contestant.enqueue) for contestant in contestants]
    meter = telemetry.Meter(arena.engine.uuid)
    timings = measure(candidates, arena.engine, settings, meter.read)
    return {timing.name: timing for timing in timings}


def _line(
    arena: Arena,
    contestant: Contestant,
    verdict: Verdict,
    timing: Timing,
    reading: Telemetry,
    rival: tuple[Contestant, Timing] | None,
    taken: str,
) -> record.Measurement:
    problem, engine, how = arena.problem, arena.engine, arena.conditions
    other = rival[1] if rival else None
    return record.Measurement(
        taken=taken,
        name=contestant.name,
        source_hash=contestant.source_hash,
        m=problem.m,
        n=problem.n,
        k=problem.k,
        layout=problem.layout,
        dtype=problem.dtype.name,
        inputs=distribution(how.inputs)[0],
        seed=how.seed,
        us=timing.us,
        us_samples=timing.us_samples,
        rival=other.name if other else None,
        rival_version=rival[0].version if rival else None,
        rival_us=other.us if other else None,
        rival_us_samples=other.us_samples if other else None,
        ratio=timing.ratio(other) if other else None,
        correct=verdict.correct,
        rel_error=verdict.rel_error,
        method=", ".join(filter(None, (timing.method, contestant.made_by))),
        gpu=engine.gpu_name,
        driver=engine.driver,
        cuda=engine.cuda,
        sm_mhz=reading.sm_mhz,
        power_w=reading.power_w,
        temperature_c=reading.temperature_c,
        host=record.host(),
    )
