"""Rungs of the triton family without a GPU: checked in Triton's interpreter, which counts nothing.

It runs in a process of its own (triton_child.py).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.bench.inputs import logical, operands
from tilewright.bench.ladder import Ladder, Place, Row, Run, identity, judged, skipped
from tilewright.verify import judge, oracle

if TYPE_CHECKING:
    from tilewright.ladder.python_rungs import TritonRung
    from tilewright.problem import Problem

Array = npt.NDArray[Any]

HERE = Place("interpreter", platform.machine())
BF16_NOTE = (
    "Triton's interpreter knows no bf16: A and B are handed to it as fp32, which holds each "
    "element exactly, and C is rounded afterwards."
)


def climb_interpreted(chosen: Sequence[TritonRung], reasons: dict[str, str], run: Run) -> Ladder:
    """A row for each rung: whether its result is right; those with a reason are skipped.

    Cost: seconds to start a process with torch, and a second for the default shape.
    """
    problem = run.problem
    takers = [rung.name for rung in chosen if rung.name not in reasons]
    rows = dict(_skipped(chosen, reasons, problem))
    if takers:
        a, b = operands(problem, run.inputs, run.seed)
        reference = oracle(*logical(problem, a, b), problem.dtype, run.seed)
        families = {rung.name: rung.family for rung in chosen}
        run.progress(takers[0], 0, len(takers))
        for name, c, error in interpret(takers, problem, a, b):
            fields = identity(name, families[name], HERE, problem)
            if c is None:
                rows[name] = Row(**fields, status="skipped", reason=error)
            else:
                rows[name] = Row(**fields | judged(judge(c, reference)))
            done = sum(taker in rows for taker in takers)
            run.progress(name, done, len(takers))
    run.progress(chosen[-1].name, 1, 1)
    title = "Triton's interpreter" + (f", Triton {version('triton')}" if takers else "")
    notes = (BF16_NOTE,) if takers and problem.dtype.name == "bf16" else ()
    return Ladder(title, problem, tuple(rows[rung.name] for rung in chosen), notes=notes)


def _skipped(
    chosen: Sequence[TritonRung], reasons: dict[str, str], problem: Problem
) -> Iterator[tuple[str, Row]]:
    for rung in chosen:
        if rung.name in reasons:
            yield rung.name, skipped(rung, HERE, problem, reasons[rung.name])


def interpret(
    names: Sequence[str], problem: Problem, a: Array, b: Array
) -> Iterator[tuple[str, Array | None, str | None]]:
    """Each rung's name with its C, or with the sentence that says why there is none.

    `a` and `b` are as they lie in memory. A C that the rung did not write holds NaN.
    """
    dtype, exact = problem.dtype.numpy(), _interpreted_type(problem)
    left = list(names)
    with TemporaryDirectory(prefix="tilewright-") as folder, TemporaryFile("w+") as said:
        for name, operand in (("a", a), ("b", b)):
            np.save(Path(folder, f"{name}.npy"), operand.astype(exact))
        where = [problem.m, problem.n, problem.k, problem.layout, problem.dtype.name]
        words = [sys.executable, "-m", "tilewright.bench.triton_child", folder]
        with subprocess.Popen(
            [*words, *map(str, where), *names],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            encoding="utf-8",
        ) as child:
            try:
                for line in child.stdout or ():
                    report = _report(line)
                    if report is None or report[0] not in left:  # what a library prints
                        continue
                    name, error = report
                    left.remove(name)
                    c = np.load(Path(folder, f"{name}.npy"), allow_pickle=False).astype(dtype)
                    yield name, None if error else c, error and f"{name} failed: {error}"
            except BaseException:
                child.kill()
                raise
        said.seek(0)
        last = (said.read().strip().splitlines() or ["nothing"])[-1]
    for name in left:
        yield name, None, f"{name} did not run: Triton's interpreter ended, saying: {last}"


def _interpreted_type(problem: Problem) -> np.dtype[Any]:
    return np.dtype(np.float32) if problem.dtype.name == "bf16" else problem.dtype.numpy()


def _environment() -> dict[str, str]:
    """Of the child: interpreted, without a GPU, and with this tilewright."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    changed = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": path}
    return {**os.environ, **changed}


def _report(line: str) -> tuple[str, str | None] | None:
    """A rung's name and its error; None for a line that is none of the child's."""
    try:
        told = json.loads(line)
        return told["name"], told["error"]
    except (ValueError, TypeError, KeyError):
        return None
