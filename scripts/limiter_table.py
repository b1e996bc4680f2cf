"""Writes docs/limiter.md: what binds each rung on an H200, the model beside measured times, and
the figures behind it.

python scripts/limiter_table.py          # writes it
python scripts/limiter_table.py --check  # fails where the page is stale

Each part stands between two marks and can be taken over as it is by another page. Rungs without
a measured time of their present code on an H200 show "–".
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tilewright.bench.pages import between, ended, settle
from tilewright.bench.record import PIPE, Measurement, load
from tilewright.bench.rung_limits import Limited, limited
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
BEGIN = "<!-- begin: scripts/limiter_table.py {} -->"
END = "<!-- end: scripts/limiter_table.py {} -->"
SIZE = 4096
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
    """One table for each family and type."""
    gpu = gpu_named("h200")
    groups: dict[tuple[str, str], list[Limited]] = {}
    for rung in rungs:
        if isinstance(rung, HopperRung):
            continue
        for name in rung.dtypes:
            problem = Problem(SIZE, SIZE, SIZE, dtype_of(name))
            if rung.refusal(problem) is None:
                found = limited(rung, problem, gpu, lines)
                groups.setdefault((rung.family, name), []).append(found)
    return "\n\n".join(table(family, name, found) for (family, name), found in groups.items())


def table(family: str, dtype: str, found: Sequence[Limited]) -> str:
    binding = {each.limits.binding for each in found}
    shown = [
        name
        for name in RESOURCES
        if name in (*SHOWN, *binding) and any(each.limits.us[name] for each in found)
    ]
    heads = ["rung", *(HEADS[name] for name in shown), "binds", "model", "measured", "error"]
    rows = [
        f"**{family}, {dtype}, {SIZE}³ on an NVIDIA H200** (µs)",
        "",
        f"| {' | '.join(heads)} |",
        f"|:--{'|--:' * len(shown)}|:--|--:|--:|--:|",
    ]
    return "\n".join(rows + [row(each, shown) for each in found])


def row(each: Limited, shown: Sequence[str]) -> str:
    limits = each.limits
    cells = [each.rung.name]
    for name in shown:
        value = f"{limits.us[name]:.0f}"
        cells.append(f"**{value}**" if name == limits.binding else value)
    measured, error = "–", "–"
    if each.measured is not None and each.error is not None:
        measured, error = f"{each.measured.us:.0f}", f"{each.error:+.1%}"
    cells += [WORDS[limits.binding], f"{limits.predicted_us:.0f}", measured, error]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(ended(main))
