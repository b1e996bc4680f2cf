"""Suites without a GPU: small shapes are counted in the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.bench import user_kernel
from tilewright.bench.inputs import logical, operands
from tilewright.bench.ladder import climb
from tilewright.bench.user_kernel import CudaKernel
from tilewright.errors import CompileError, InputError, UnsupportedError
from tilewright.ladder.python_rungs import CpuRung, TritonRung
from tilewright.verify import judge, oracle

if TYPE_CHECKING:
    from tilewright.bench.suite_run import Plan, Row
    from tilewright.bench.suites import Shape
    from tilewright.engines.emulator import EmulatorEngine

_NO_COUNTS = (
    "{} is timed on a GPU, and there is none here; tilewright ladder triton checks it in Triton's "
    "interpreter."
)
_FLOPS = 3e9  # above, counting takes longer than anybody waits: about 1500³


def count(engine: EmulatorEngine, plan: Plan, shape: Shape, blank: Row) -> Iterator[Row]:
    """A row for each rung and each kernel of the user's: counts, or why there are none."""
    problem = shape.problem(plan.dtype)
    too_large = (
        f"above {_FLOPS:.0e} FLOP, too large to be counted in reasonable time; it needs a GPU."
        if problem.flops > _FLOPS
        else None
    )
    for rung in plan.rungs:
        if isinstance(rung, CpuRung):  # suite_host.py's
            continue
        row = replace(blank, name=rung.name)
        if isinstance(rung, TritonRung):
            yield replace(row, status="skipped", reason=_NO_COUNTS.format(rung.name))
            continue
        if reason := rung.refusal(problem, engine.shared_bytes_limit, engine.arch) or too_large:
            yield replace(row, status="skipped", reason=reason)
            continue
        (counted,) = climb(
            m=shape.m,
            n=shape.n,
            k=shape.k,
            dtype=plan.dtype,
            layout=shape.layout,
            rungs=rung.name,
            engine="emulator",
            gpu=engine.gpu.name,
            seed=plan.conditions.seed,
            inputs=plan.conditions.inputs,
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
    for kernel in plan.kernels:
        row = replace(blank, name=plan.labels[kernel])
        if not isinstance(kernel, CudaKernel):
            reason = f"{kernel.label} is a Python function of tensors on a GPU; there is none here."
            yield replace(row, status="skipped", reason=reason)
        elif too_large:
            yield replace(row, status="skipped", reason=too_large)
        else:
            yield _count_kernel(kernel, plan, shape, row, engine)


def _count_kernel(
    kernel: CudaKernel, plan: Plan, shape: Shape, row: Row, engine: EmulatorEngine
) -> Row:
    problem, how = shape.problem(plan.dtype), plan.conditions
    try:
        planned = user_kernel.plan(kernel, problem, engine.arch)
    except (InputError, CompileError) as error:
        return replace(row, status="skipped", reason=str(error))
    a, b = operands(problem, how.inputs, how.seed)
    out = np.empty((problem.m, problem.n), problem.dtype.numpy())
    out.view(np.uint8).fill(planned.poison_byte)
    buffers = engine.upload(a), engine.upload(b), engine.upload(out)
    try:
        report = engine.launch(user_kernel.launch(planned, *buffers))
    except UnsupportedError as error:
        return replace(row, status="skipped", reason=f"{error} A GPU can still time it.")
    verdict = judge(
        engine.download(buffers[2]), oracle(*logical(problem, a, b), problem.dtype, how.seed)
    )
    reasons = [verdict.message] if verdict.message else []
    reasons += [f"{it.file}:{it.line}: {it.message}" for it in report.findings[:1]]
    if reasons and problem.layout != "nn" and kernel.layout is None:
        reasons.append("If it takes only nn, say so: layout=nn.")
    reason = " ".join(reasons) or None
    return replace(
        row,
        version=user_kernel.describe(planned),
        status="wrong" if reason else "ok",
        reason=reason,
        correct=reason is None,
        rel_error=verdict.rel_error,
        shared_wavefronts=report.totals["shared_wavefronts"],
        bank_conflicts=report.totals["bank_conflicts"],
        global_sectors=report.totals["global_sectors"],
    )
