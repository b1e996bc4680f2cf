"""Rungs of NumPy arrays on the host's own processor: checked, and timed with the wall clock.

They run one after the other and beside whatever else the machine does, never in a contest with a
GPU's kernels: their figures are for orders of magnitude.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.bench import record
from tilewright.bench.inputs import distribution, logical, operands
from tilewright.bench.ladder import Ladder, Place, Row, Run, identity, judged, skipped
from tilewright.bench.rung_code import hash_of
from tilewright.verify import Verdict, judge, oracle

if TYPE_CHECKING:
    from tilewright.bench.record import Measurement
    from tilewright.ladder.python_rungs import CpuRung
    from tilewright.problem import Problem

MOST_RUNS, MOST_SECONDS = 7, 3.0  # of a rung at a shape, the second where one run is short
HERE = Place("cpu", platform.machine())

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class HostResult:
    """A rung at a problem: whether its first and its last result are right, and its runs' times
    in microseconds."""

    verdict: Verdict
    us_samples: tuple[float, ...]
    method: str

    @property
    def us(self) -> float:
        return median(self.us_samples)


def climb_on_host(chosen: Sequence[CpuRung], reasons: dict[str, str], run: Run) -> Ladder:
    """Rows of the rungs; those with a reason are skipped."""
    rows, lines = list[Row](), list[record.Measurement]()
    for number, rung in enumerate(chosen):
        run.progress(rung.name, number, len(chosen))
        if rung.name in reasons:
            rows.append(skipped(rung, HERE, run.problem, reasons[rung.name]))
            continue
        result = measure_on_host(rung, run.problem, run.inputs, run.seed)
        fields = identity(rung.name, rung.family, HERE, run.problem) | judged(result.verdict)
        if result.verdict.correct:
            fields |= {"us": result.us, "tflops": run.problem.flops / result.us / 1e6}
            lines.append(host_line(rung, run.problem, run.inputs, run.seed, result))
        rows.append(Row(**fields))
    run.progress(chosen[-1].name, 1, 1)
    return Ladder(title(), run.problem, tuple(rows), measurements=tuple(lines))


def measure_on_host(rung: CpuRung, problem: Problem, inputs: str, seed: int) -> HostResult:
    """Runs the rung on A and B, each time into a C of NaN.

    Cost: up to MOST_SECONDS, or one run where that takes longer; and the float64 product.
    """
    stored = operands(problem, inputs, seed)
    a, b = logical(problem, *stored)
    reference = oracle(a, b, problem.dtype, seed)
    c = np.empty((problem.m, problem.n), problem.dtype.numpy())
    first_us = _one_run_us(rung.gemm, a, b, c)
    verdict = judge(c, reference)
    samples: list[float] = []
    spent_us = first_us
    while len(samples) < MOST_RUNS and spent_us + first_us < MOST_SECONDS * 1e6:
        samples.append(_one_run_us(rung.gemm, a, b, c))
        spent_us += samples[-1]
    if not samples:
        return HostResult(verdict, (first_us,), "wall clock on the host, one run, no warm-up")
    last = judge(c, reference)
    how = f"wall clock on the host, {len(samples)} runs one after the other after an untimed one"
    return HostResult(verdict if not verdict.correct else last, tuple(samples), how)


def _one_run_us(gemm: Callable[[Array, Array, Array], None], a: Array, b: Array, c: Array) -> float:
    c.view(np.uint8).fill(0xFF)  # NaN in every floating type
    start = time.perf_counter()
    gemm(a, b, c)
    return (time.perf_counter() - start) * 1e6


def host_line(
    rung: CpuRung, problem: Problem, inputs: str, seed: int, result: HostResult
) -> Measurement:
    """The record: no GPU and no rival, and the processor's name in `host`."""
    return record.Measurement(
        taken=record.now(),
        name=rung.name,
        source_hash=hash_of(rung),
        m=problem.m,
        n=problem.n,
        k=problem.k,
        layout=problem.layout,
        dtype=problem.dtype.name,
        inputs=distribution(inputs)[0],
        seed=seed,
        us=result.us,
        us_samples=result.us_samples,
        rival=None,
        rival_version=None,
        rival_us=None,
        rival_us_samples=None,
        ratio=None,
        correct=result.verdict.correct,
        rel_error=result.verdict.rel_error,
        method=result.method,
        gpu=None,
        driver=None,
        cuda=None,
        sm_mhz=None,
        power_w=None,
        temperature_c=None,
        host=record.host(processor(), libraries()),
    )


def title() -> str:
    """What ran, for people."""
    return f"{processor()}, {libraries()}"


def processor() -> str:
    """The processor's name, without what a table cannot hold."""
    try:
        words = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        words = ""
    named = (line.split(":", 1)[1].strip() for line in words.splitlines() if "model name" in line)
    name = next(named, "") or platform.processor() or platform.machine()
    return "".join(letter for letter in name if letter.isprintable() and letter not in "|<>")


def libraries() -> str:
    """NumPy and the library that it multiplies with: "NumPy 2.4.6 (scipy-openblas 0.3.31)"."""
    known: Any = np.show_config(mode="dicts")
    blas = (known or {}).get("Build Dependencies", {}).get("blas", {})
    named = f"{blas.get('name', '')} {blas.get('version', '')}".strip()
    return f"NumPy {np.__version__}" + (f" ({named})" if named else "")
