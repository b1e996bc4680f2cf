"""The ladder on a GPU: rungs and peers checked, timed against each other, checked again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.bench import record, telemetry
from tilewright.bench.ladder import (
    Ladder,
    Progress,
    Row,
    build_rung,
    identity,
    judged,
    resources,
    rung_launch,
    skipped,
)
from tilewright.bench.peers import Peer, found_peers
from tilewright.bench.protocol import (
    Candidate,
    Settings,
    Timing,
    input_sets,
    measure,
    sample_under_load,
)
from tilewright.build import headers
from tilewright.gpus import gpu_reported
from tilewright.ladder.rungs import RUNGS, Rung
from tilewright.launch import Launch
from tilewright.verify import Verdict, judge, oracle, random_operands

if TYPE_CHECKING:
    from tilewright.bench.telemetry import Telemetry
    from tilewright.engines.base import Buffer
    from tilewright.engines.gpu import GpuEngine
    from tilewright.problem import Problem
    from tilewright.verify import Oracle

_MEMORY_SHARE = 0.8  # of the memory that is free, for all input sets together
_ROUND_US = 12_000.0
_LEAD_IN_US = 100_000.0  # at its power cap an H200 takes some tens of ms to change its clock
_INPUTS = "normal(0, 1)"
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


@dataclass(frozen=True)
class _Contestant:
    """A rung or a peer: `enqueue(i)` runs it on input set i."""

    name: str
    enqueue: Callable[[int], None]
    fields: dict[str, Any]
    source_hash: str | None = None


@dataclass(frozen=True)
class _Arena:
    """The problem on the GPU: `sets` of A, B and C that together exceed the L2 cache twice."""

    engine: GpuEngine
    problem: Problem
    seed: int
    reference: Oracle
    a: list[Buffer]
    b: list[Buffer]
    c: list[Buffer]

    def verdict(self, contestant: _Contestant) -> Verdict:
        """Whether one run on fresh, poisoned output is right, for the first and last set."""
        verdicts = []
        for which in {0, len(self.c) - 1}:
            self.engine.refill(self.c[which])
            contestant.enqueue(which)
            verdicts.append(judge(self.engine.download(self.c[which]), self.reference))
        return max(verdicts, key=lambda verdict: (not verdict.correct, verdict.rel_error))


def time_rungs(
    engine: GpuEngine,
    chosen: Sequence[Rung],
    refusals: dict[str, str],
    problem: Problem,
    seed: int,
    progress: Progress,
) -> Ladder:
    """Rows for the peers found and the rungs, in this order, as the article's table has them.

    Raises: EngineError when the GPU fails; InputError when the operands do not fit its memory.
    """
    progress("operands and their float64 product", 0, 4)
    arena = _arena(engine, problem, seed)
    peers, left_out = found_peers(engine)
    contestants = [_peer(peer, arena) for peer in peers]
    progress("kernels", 1, 4)
    contestants += [_rung(rung, arena) for rung in chosen if rung.name not in refusals]
    verdicts = {contestant.name: arena.verdict(contestant) for contestant in contestants}
    progress("timing", 2, 4)
    race = _race(arena, [c for c in contestants if verdicts[c.name].correct], peers)
    progress("the results once more", 3, 4)
    verdicts |= {c.name: arena.verdict(c) for c in contestants if c.name in race.timings}
    rows = [_row(race, contestant, verdicts[contestant.name]) for contestant in contestants]
    by_name = {row.name: row for row in rows}
    for name, reason in refusals.items():
        by_name[name] = skipped(RUNGS[name], engine, problem, reason)
    order = [peer.name for peer in peers] + [rung.name for rung in chosen]
    lines = [_line(race, c, verdicts[c.name]) for c in contestants if c.name in race.timings]
    return Ladder(
        engine.title,
        problem,
        tuple(by_name[name] for name in order),
        measurements=tuple(lines),
        notes=tuple(left_out),
    )


def _settings(sets: int) -> Settings:
    return Settings(sets, round_us=_ROUND_US, lead_in_us=_LEAD_IN_US)


def _arena(engine: GpuEngine, problem: Problem, seed: int) -> _Arena:
    limit = int(engine.free_bytes() * _MEMORY_SHARE)
    sets = input_sets(problem.bytes, engine.l2_bytes, limit)
    a, b = random_operands(problem.m, problem.n, problem.k, problem.dtype, seed)
    shape = (problem.m, problem.n)
    return _Arena(
        engine,
        problem,
        seed,
        oracle(a, b, problem.dtype, seed),
        [engine.upload(a) for _ in range(sets)],
        [engine.upload(b) for _ in range(sets)],
        [engine.empty(shape, problem.dtype.numpy()) for _ in range(sets)],
    )


def _peer(peer: Peer, arena: _Arena) -> _Contestant:
    enqueue = peer.bind(arena.a, arena.b, arena.c, arena.problem)
    fields = identity(peer.name, "peer", arena.engine, arena.problem)
    return _Contestant(peer.name, enqueue, fields)


def _rung(rung: Rung, arena: _Arena) -> _Contestant:
    engine, problem = arena.engine, arena.problem
    artifact = build_rung(rung, problem, engine.arch)
    launches = [
        rung_launch(rung, artifact, problem, buffers)
        for buffers in zip(arena.a, arena.b, arena.c, strict=True)
    ]

    def enqueue(which: int) -> None:
        engine.launch(launches[which % len(launches)])

    fields = identity(rung.name, rung.family, engine, problem)
    fields |= _residency(rung, engine, problem, launches[0])
    return _Contestant(rung.name, enqueue, fields, record.source_hash(code_of(rung.text)))


def _residency(rung: Rung, engine: GpuEngine, problem: Problem, launch: Launch) -> dict[str, Any]:
    return resources(rung, problem, launch, gpu_reported(engine.gpu_name))


def code_of(text: str) -> str:
    """The rung with the package's headers that it includes, each once: what the record hashes."""
    parts, todo, seen = [text], _INCLUDE.findall(text), set[str]()
    while todo:
        name = todo.pop(0)
        if name not in seen:
            seen.add(name)
            parts.append(headers()[name])
            todo += _INCLUDE.findall(headers()[name])
    return "\n".join(parts)


@dataclass(frozen=True)
class _Race:
    """The timings of one measurement, by name, and what each record of it says."""

    arena: _Arena
    timings: dict[str, Timing]
    readings: dict[str, Telemetry]
    rival: Timing | None
    rival_version: str | None
    taken: str


def _race(arena: _Arena, contestants: Sequence[_Contestant], peers: Sequence[Peer]) -> _Race:
    """Times the contestants against each other; the first peer among them is the rival."""
    engine, sets = arena.engine, len(arena.c)
    candidates = [Candidate(contestant.name, contestant.enqueue) for contestant in contestants]
    timed = measure(candidates, engine, _settings(sets)) if candidates else []
    timings = {timing.name: timing for timing in timed}

    def sample() -> Telemetry:
        return telemetry.sample(engine.uuid)

    readings = {c.name: sample_under_load(c, engine, sample, sets) for c in candidates}
    rival = next((peer for peer in peers if peer.name in timings), None)
    return _Race(
        arena,
        timings,
        readings,
        timings[rival.name] if rival else None,
        rival.version if rival else None,
        record.now(),
    )


def _row(race: _Race, contestant: _Contestant, verdict: Verdict) -> Row:
    fields = contestant.fields | judged(verdict)
    timing, rival = race.timings.get(contestant.name), race.rival
    if timing is not None and verdict.correct:
        fields |= {"us": timing.us, "tflops": race.arena.problem.flops / timing.us / 1e6}
        if rival is not None:
            fields |= {"speedup": timing.ratio(rival), "rival": rival.name}
    return Row(**fields)


def _line(race: _Race, contestant: _Contestant, verdict: Verdict) -> record.Measurement:
    arena, rival = race.arena, race.rival
    timing, reading = race.timings[contestant.name], race.readings[contestant.name]
    problem, engine = arena.problem, arena.engine
    return record.Measurement(
        taken=race.taken,
        name=contestant.name,
        source_hash=contestant.source_hash,
        m=problem.m,
        n=problem.n,
        k=problem.k,
        layout=problem.layout,
        dtype=problem.dtype.name,
        inputs=_INPUTS,
        seed=arena.seed,
        us=timing.us,
        us_samples=timing.us_samples,
        rival=rival.name if rival else None,
        rival_version=race.rival_version,
        rival_us=rival.us if rival else None,
        rival_us_samples=rival.us_samples if rival else None,
        ratio=timing.ratio(rival) if rival else None,
        correct=verdict.correct,
        rel_error=verdict.rel_error,
        method=timing.method,
        gpu=engine.gpu_name,
        driver=engine.driver,
        cuda=engine.cuda,
        sm_mhz=reading.sm_mhz,
        power_w=reading.power_w,
        temperature_c=reading.temperature_c,
        host=record.host(),
    )
