"""Suites on a GPU: peers, rungs and the user's kernels at each shape, beside the roofs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

from tilewright.bench.contest import (
    Contestant,
    enter_kernel,
    enter_peer,
    enter_rung,
    hold,
    set_up,
)
from tilewright.bench.peers import found_peers
from tilewright.bench.protocol import quantile
from tilewright.bench.roofs import floor_us
from tilewright.bench.survey import measure_roofs
from tilewright.bench.telemetry import typical
from tilewright.bench.triton_rungs import enter_triton
from tilewright.bench.user_kernel import CudaKernel
from tilewright.errors import CompileError, EngineError, InputError
from tilewright.ladder.python_rungs import TritonRung
from tilewright.ladder.rungs import KernelRung

# Of the roof: libraries do not quite reach what the tensor cores can, but no kernel does so much.
_IMPOSSIBLE = 1.5

if TYPE_CHECKING:
    from tilewright.bench.contest import Arena, Contest, Result
    from tilewright.bench.peers import Peer
    from tilewright.bench.roofs import Roofs
    from tilewright.bench.suite_run import Each, Keep, Plan, Row
    from tilewright.bench.suites import Shape
    from tilewright.bench.user_function import FunctionKernel
    from tilewright.engines.gpu import GpuEngine
    from tilewright.ladder.rung import Rung
    from tilewright.problem import Problem

    Entry = tuple[str, Callable[[Arena], Contestant]]


def timer(engine: GpuEngine, plan: Plan, keep: Keep) -> tuple[Each, list[str]]:
    """What measures one shape, and notes on what was left out. Measures the roofs.

    Raises: InputError for a peer that was named and is not here; EngineError when the GPU fails.
    """
    peers, notes = found_peers(engine, plan.dtype, plan.against)
    if plan.against and notes:
        raise InputError(notes[0])
    roofs: Roofs | None = None
    if plan.roofs:
        try:
            roofs = measure_roofs(engine, plan.dtype, peers[0] if peers else None)
            keep(roofs.lines)
        except InputError as error:  # a type without a matrix rate, or too little memory
            notes.append(f"No roofs: {error}")
    entries = _entries(engine, plan, peers)

    def each(plan: Plan, shape: Shape, blank: Row) -> Iterator[Row]:
        problem = shape.problem(plan.dtype)
        if roofs is not None:
            least_us, binds = floor_us(roofs, problem, plan.conditions.cold)
            blank = replace(blank, roof=binds, roof_us=least_us)
        try:
            arena = set_up(engine, problem, plan.conditions)
        except InputError as error:  # too large for this GPU; the other shapes are not
            yield replace(blank, name="all", status="skipped", reason=str(error))
            return
        contestants: list[Contestant] = []
        for name, enter in entries:
            try:
                contestants.append(replace(enter(arena), name=name))
            except (EngineError, InputError, CompileError) as error:
                yield replace(blank, name=name, status="skipped", reason=str(error))
        if plan.noise and contestants:
            first = contestants[0]
            contestants.append(replace(first, name=f"{first.name} again"))
        contest = hold(arena, contestants, [peer.name for peer in peers])
        keep([result.line for result in contest.results if result.line])
        for result in contest.results:
            yield _row(blank, problem, contest, result, peers)

    return each, notes


def _entries(engine: GpuEngine, plan: Plan, peers: list[Peer]) -> list[Entry]:
    """All that is to be timed, in the order of the rows, each name once."""
    entries: list[Entry] = [(peer.name, partial(enter_peer, peer)) for peer in peers]
    entries += [(rung.name, partial(_enter_rung, rung)) for rung in plan.rungs]
    enter: Callable[[Arena], Contestant]
    for kernel in plan.kernels:
        if isinstance(kernel, CudaKernel):
            enter = partial(enter_kernel, kernel)
        else:
            enter = partial(_enter_function, kernel, engine)
        entries.append((plan.labels[kernel], enter))
    return entries


def _enter_function(kernel: FunctionKernel, engine: GpuEngine, arena: Arena) -> Contestant:
    return enter_peer(kernel.peer(engine), arena)


def _enter_rung(rung: Rung, arena: Arena) -> Contestant:
    engine = arena.engine
    if reason := rung.refusal(arena.problem, engine.shared_bytes_limit, engine.arch):
        raise InputError(reason)
    if isinstance(rung, TritonRung):
        return enter_triton(rung, arena)
    assert isinstance(rung, KernelRung)  # of the host there are none in a plan without_host
    return enter_rung(rung, arena)


def _row(blank: Row, problem: Problem, contest: Contest, result: Result, peers: list[Peer]) -> Row:
    verdict, timing = result.verdict, result.timing
    row = replace(
        blank,
        name=result.contestant.name,
        version=result.contestant.version,
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
        tflops=problem.flops / timing.us / 1e6,
        roof_share=None if blank.roof_us is None else blank.roof_us / timing.us,
        method=timing.method,
        **asdict(typical(timing.readings)),
    )
    if row.roof_share is not None and row.roof_share > _IMPOSSIBLE:
        reason = (
            f"{row.roof_share:.1f} times what the {row.roof} roof allows: does its work run on "
            "another stream, where it is not timed?"
        )
        row = replace(row, status="wrong", reason=reason)
    if contest.rival is None:
        return row
    ratios = timing.ratios(contest.rival)
    names = [peer.name for peer in peers]
    return replace(
        row,
        rival=contest.rival.name,
        ratio=timing.ratio(contest.rival),
        ratio_p20=quantile(ratios, 0.2),
        ratio_p80=quantile(ratios, 0.8),
        ratios={
            other.contestant.name: timing.ratio(other.timing)
            for other in contest.results
            if other.timing is not None and other.contestant.name in names
        },
    )
