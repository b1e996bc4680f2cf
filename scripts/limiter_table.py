"""Writes docs/limiter.md: what binds each rung on an H200, the model beside measured times, and
the figures behind it.

python scripts/limiter_table.py          # writes it
python scripts/limiter_table.py --check  # fails where the page is stale

Each part stands between two marks and can be taken over as it is by another page. Rungs without
a measured time of their present code on an H200 show "–"; of hopper, whose time depends on a
measured clock, only what was measured is shown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tilewright.bench.pages import between, ended, settle
from tilewright.bench.record import PIPE, Measurement, load
from tilewright.bench.rung_limits import Limited, limited, newest
from tilewright.cli.explain_limiter import WORDS
from tilewright.dtypes import dtype_of
from tilewright.gpus import gpu_named
from tilewright.ladder.hopper_rung import HopperRung
from tilewright.ladder.rungs import KERNELS, KernelRung
from tilewright.model.limiter import RESOURCES
from tilewright.model.rates import ALL
from tilewright.problem import Problem

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "limiter.md"
MEASUREMENTS = ROOT / "measurements"
H200 = gpu_named("h200")
BEGIN = "<!-- begin: scripts/limiter_table.py {} -->"
END = "<!-- end: scripts/limiter_table.py {} -->"
SIZE = 4096
OF_HOPPER = ((4096, "nn"), (4096, "nt"), (8192, "nn"), (8192, "nt"))
SHOWN = ("tensor", "fma", "shared", "l2", "dram", "latency")  # and whatever else binds
HEADS = {"tensor": "mma", "fma": "FMA", "shared": "shared", "issue": "issue", "l1": "L1",
         "l2": "L2", "dram": "DRAM", "latency": "latency"}  # fmt: skip


def main(arguments: list[str]) -> int:
    text = PAGE.read_text(encoding="utf-8")
    parts = {"rungs": tables(KERNELS.values(), load(MEASUREMENTS)), "figures": figures()}
    for name, part in parts.items():
        text = between(text, BEGIN.format(name), END.format(name), f"\n{part}\n", str(PAGE))
    remedy = f"run python scripts/{Path(__file__).name}"
    return settle(PAGE, text, check="--check" in arguments, remedy=remedy)


def figures() -> str:
    """The table of model/rates.py."""
    rows = ["| what | value | where from | lines that say it |", "|:--|:--|:--|:--|"]
    for rate in ALL:
        lines = ", ".join(f"`{PIPE}{name}`" for name in rate.pipes) or "–"
        rows.append(f"| {rate.what} | {rate.value:g} {rate.unit} | {rate.source} | {lines} |")
    return "\n".join(rows)


def tables(rungs: Iterable[KernelRung], lines: Sequence[Measurement]) -> str:
    """One table for each family and problem."""
    groups: dict[tuple[str, Problem], list[Limited]] = {}
    for rung in rungs:
        for problem in problems(rung, lines):
            found = limited(rung, problem, H200, lines)
            groups.setdefault((rung.family, problem), []).append(found)
    return "\n\n".join(table(found) for found in groups.values())


def problems(rung: KernelRung, lines: Sequence[Measurement]) -> Iterator[Problem]:
    """What a rung is shown at."""
    for dtype in map(dtype_of, rung.dtypes):
        if isinstance(rung, HopperRung):
            timed = (Problem(size, size, size, dtype, layout) for size, layout in OF_HOPPER)
            yield from (each for each in timed if newest(lines, rung, each, H200))
        elif rung.refusal(problem := Problem(SIZE, SIZE, SIZE, dtype)) is None:
            yield problem


def table(found: Sequence[Limited]) -> str:
    """Rungs of one family on one problem."""
    family, problem = found[0].rung.family, found[0].problem
    layout = "" if problem.layout == "nn" else f" {problem.layout}"
    clocked = any(each.model == "pipes" for each in found)
    binding = {each.limits.binding for each in found}
    shown = [
        name
        for name in RESOURCES
        if name in (*SHOWN, *binding) and any(each.limits.us[name] for each in found)
    ]
    heads = ["rung", *(HEADS[name] for name in shown), "binds"]
    heads += [*(["MHz"] * clocked), "model", "measured", "error"]
    rows = [
        f"**{family}, {problem.dtype.name}, {problem.m}³{layout} on an {H200.title}** (µs)",
        "",
        f"| {' | '.join(heads)} |",
        f"|:--{'|--:' * len(shown)}|:--{'|--:' * (3 + clocked)}|",
    ]
    return "\n".join(rows + [row(each, shown, clocked) for each in found])


def row(each: Limited, shown: Sequence[str], clocked: bool) -> str:
    """`clocked` says that the clock is shown."""
    limits = each.limits
    cells = [each.rung.name]
    for name in shown:
        value = f"{limits.us[name]:.0f}"
        cells.append(f"**{value}**" if name == limits.binding else value)
    measured, error = "–", "–"
    if each.measured is not None and each.error is not None:
        measured, error = f"{each.measured.us:.0f}", f"{each.error:+.1%}"
    cells += [WORDS[limits.binding], *([f"{limits.mhz:.0f}"] * clocked)]
    cells += [f"{limits.predicted_us:.0f}", measured, error]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(ended(main))
