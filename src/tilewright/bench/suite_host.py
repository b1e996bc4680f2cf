"""Suites on the host: the rungs of NumPy arrays at each shape, where they are named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.bench import host_rungs
from tilewright.bench.protocol import quantile
from tilewright.ladder.python_rungs import CpuRung

if TYPE_CHECKING:
    from tilewright.bench.suite_run import Keep, Plan, Row
    from tilewright.bench.suites import Shape


def rows_on_host(keep: Keep, plan: Plan, shape: Shape, blank: Row) -> Iterator[Row]:
    """A row for each rung of the host, timed alone after the GPU's contest, or the reason why
    there is none. No roof of a GPU is theirs, and no rival."""
    problem, how = shape.problem(plan.dtype), plan.conditions
    here = host_rungs.HERE
    for rung in plan.rungs:
        if not isinstance(rung, CpuRung):
            continue
        row = replace(blank, name=rung.name, engine=here.name, arch=here.arch, cache="warm")
        if reason := rung.refusal(problem):
            yield replace(row, status="skipped", reason=reason)
            continue
        result = host_rungs.measure_on_host(rung, problem, how.inputs, how.seed)
        row = replace(
            row,
            status="ok" if result.verdict.correct else "wrong",
            reason=result.verdict.message or None,
            correct=result.verdict.correct,
            rel_error=result.verdict.rel_error,
            version=host_rungs.title(),
        )
        if result.verdict.correct:
            keep([host_rungs.host_line(rung, problem, how.inputs, how.seed, result)])
            row = replace(
                row,
                us=result.us,
                us_p20=quantile(result.us_samples, 0.2),
                us_p80=quantile(result.us_samples, 0.8),
                tflops=problem.flops / result.us / 1e6,
                method=result.method,
            )
        yield row
