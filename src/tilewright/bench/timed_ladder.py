"""The ladder on a GPU: rows for the peers and the rungs, in the form of the seed article."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.bench.contest import (
    Conditions,
    Contest,
    Result,
    enter_peer,
    enter_rung,
    hold,
    set_up,
)
from tilewright.bench.ladder import Ladder, Progress, Row, identity, judged, resources, skipped
from tilewright.bench.peers import found_peers
from tilewright.bench.telemetry import typical
from tilewright.bench.triton_rungs import enter_triton
from tilewright.errors import EngineError
from tilewright.gpus import gpu_reported
from tilewright.ladder.python_rungs import TritonRung
from tilewright.ladder.rungs import KERNELS, RUNGS, KernelRung

if TYPE_CHECKING:
    from tilewright.engines.gpu import GpuEngine
    from tilewright.ladder.rung import Rung
    from tilewright.problem import Problem


def time_rungs(
    engine: GpuEngine,
    chosen: Sequence[Rung],
    refusals: dict[str, str],
    problem: Problem,
    conditions: Conditions,
    progress: Progress,
) -> Ladder:
    """Rows for the peers found and the rungs, in this order, as the article's table has them.

    Raises: EngineError when the GPU fails; InputError when the operands do not fit its memory.
    """
    progress("operands and their float64 product", 0, 3)
    arena = set_up(engine, problem, conditions)
    peers, left_out = found_peers(engine, problem.dtype)
    progress("kernels", 1, 3)
    contestants = [enter_peer(peer, arena) for peer in peers]
    reasons = dict(refusals)
    for rung in chosen:
        if rung.name in reasons:
            continue
        if isinstance(rung, KernelRung):
            contestants.append(enter_rung(rung, arena))
        elif isinstance(rung, TritonRung):
            try:
                contestants.append(enter_triton(rung, arena))
            except EngineError as error:  # Triton's; the others can do without it
                reasons[rung.name] = str(error)
    progress("timing", 2, 3)
    contest = hold(arena, contestants, [peer.name for peer in peers])
    rows = {r.contestant.name: _row(engine, problem, contest, r) for r in contest.results}
    for name, reason in reasons.items():
        rows[name] = skipped(RUNGS[name], engine, problem, reason)
    order = [peer.name for peer in peers] + [rung.name for rung in chosen]
    return Ladder(
        engine.title,
        problem,
        tuple(rows[name] for name in order),
        measurements=tuple(result.line for result in contest.results if result.line),
        notes=tuple(left_out),
    )


def _row(engine: GpuEngine, problem: Problem, contest: Contest, result: Result) -> Row:
    name, timing = result.contestant.name, result.timing
    rung = KERNELS.get(name)
    family = RUNGS[name].family if name in RUNGS else "peer"
    fields = identity(name, family, engine, problem)
    fields |= judged(result.verdict)
    if rung is not None and result.contestant.launch is not None:
        known = gpu_reported(engine.gpu_name)
        fields |= resources(rung, problem, result.contestant.launch, known)
    if timing is not None and result.verdict.correct:
        reading = typical(timing.readings)
        fields |= {"us": timing.us, "tflops": problem.flops / timing.us / 1e6}
        fields |= {"sm_mhz": reading.sm_mhz, "power_w": reading.power_w}
        if contest.rival is not None:
            fields |= {"speedup": timing.ratio(contest.rival), "rival": contest.rival.name}
    return Row(**fields)
