"""The ladder in the emulator: what each rung's launch costs, counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.bench.inputs import logical, operands
from tilewright.bench.ladder import (
    Ladder,
    Row,
    Run,
    build_rung,
    identity,
    judged,
    resources,
    rung_launch,
    skipped,
)
from tilewright.gpus import MEASURED_ARCH, gpu_named
from tilewright.verify import Verdict, judge, oracle

if TYPE_CHECKING:
    from tilewright.emulator.report import Report
    from tilewright.engines.emulator import EmulatorEngine
    from tilewright.ladder.rungs import KernelRung
    from tilewright.launch import Launch
    from tilewright.problem import Problem


def count_rungs(
    engine: EmulatorEngine, chosen: Sequence[KernelRung], refusals: dict[str, str], run: Run
) -> Ladder:
    """The ladder in the emulator."""
    problem = run.problem
    takers = [rung for rung in chosen if rung.name not in refusals]
    artifacts = {rung.name: build_rung(rung, problem, engine.arch) for rung in takers}
    a, b = operands(problem, run.inputs, run.seed)
    reference = oracle(*logical(problem, a, b), problem.dtype, run.seed)
    buffers = engine.upload(a), engine.upload(b)
    rows: list[Row] = []
    reports: dict[str, Report] = {}
    for number, rung in enumerate(chosen):
        if rung.name in refusals:
            rows.append(skipped(rung, engine, problem, refusals[rung.name]))
            continue

        def tell(done: int, total: int, number: int = number, name: str = rung.name) -> None:
            run.progress(name, number * total + done, len(chosen) * total)

        engine.progress = tell
        out = engine.empty((problem.m, problem.n), problem.dtype.numpy())
        launch = rung_launch(rung, artifacts[rung.name], problem, (*buffers, out), engine.sms)
        reports[rung.name] = report = engine.launch(launch)
        verdict = judge(engine.download(out), reference)
        rows.append(_counted_row(rung, engine, problem, launch, report, verdict))
    return Ladder(engine.title, problem, tuple(rows), reports, notes=_notes(engine, rows))


def _notes(engine: EmulatorEngine, rows: Sequence[Row]) -> tuple[str, ...]:
    differences = [f"{row.name}: {words}" for row in rows for words in row.sass or ()]
    if engine.arch == MEASURED_ARCH:
        return tuple(differences)
    return (
        *differences,
        f"The rules that turn addresses into wavefronts and sectors were measured on "
        f"{MEASURED_ARCH}; for {engine.arch} they are assumed.",
    )


def _counted_row(
    rung: KernelRung,
    engine: EmulatorEngine,
    problem: Problem,
    launch: Launch,
    report: Report,
    verdict: Verdict,
) -> Row:
    fields = identity(rung.name, rung.family, engine, problem) | judged(verdict) | report.totals
    fields |= resources(rung, problem, launch, gpu_named(engine.gpu.name))
    if report.machine_code is not None and report.machine_code.differences is not None:
        fields["sass"] = tuple(map(str, report.machine_code.differences))
    if not report.clean:
        reason = "; ".join(filter(None, (_fault(report), verdict.message)))
        fields |= {"status": "wrong", "correct": False, "reason": reason}
    return Row(**fields)


def _fault(report: Report) -> str:
    """The first finding with its line, and how many more there are."""
    if not report.findings:
        return "the launch did not complete"
    first, more = report.findings[0], len(report.findings) - 1
    others = f" (and {more} more finding{'s' * (more > 1)})" if more else ""
    return f"{first.kind}, {first.file}:{first.line}: {first.message}{others}"
