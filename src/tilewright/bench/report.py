"""Tables made from measurement lines, and only from them.

    python -m tilewright.bench.report --write README.md measurements/
    python -m tilewright.bench.report --check README.md measurements/

The first puts the tables between the README's markers; the second ends with 1 when the README
does not show what the measurements say, and both with 2 when something cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.bench.pages import between, settle
from tilewright.bench.record import Measurement, load
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BEGIN = "<!-- table: ladder -->"
END = "<!-- /table -->"
BASELINE = "torch"

_Group = tuple[str, str, int, int, int, str]  # gpu or host, dtype, m, n, k, layout
_HEAD = (
    "| kernel | time (µs) | TFLOP/s | speed ÷ torch | error |",
    "|:--|--:|--:|--:|--:|",
)


def ladder_table(measurements: Iterable[Measurement]) -> str:
    """Markdown tables for each GPU, type and shape: of the fullest run there is of it, and of
    others that timed kernels which no table before has. Lines of the host have none.

    Rows keep the order of their lines. Time is the median over rounds, speed the median of the
    rounds' ratios to torch ("–" where a line has another rival or none), error ‖C−R‖F ÷ ‖R‖F.
    A line that was found wrong shows no figures.
    """
    groups: dict[_Group, list[Measurement]] = {}
    for line in measurements:
        if line.is_roof or line.gpu is None:
            continue
        group = (line.machine, line.dtype, line.m, line.n, line.k, line.layout)
        groups.setdefault(group, []).append(line)
    if not groups:
        return "Nothing has been measured yet."
    return "\n\n".join(_table(run) for group in sorted(groups) for run in covering(groups[group]))


def covering(lines: Sequence[Measurement]) -> list[list[Measurement]]:
    """Runs that have every kernel among them, the fullest first, none that adds nothing."""
    left = list(lines)
    runs: list[list[Measurement]] = []
    while left:
        run = fullest(left)
        names = {line.name for line in run}
        if names - {line.name for each in runs for line in each}:
            runs.append(run)
        left = [line for line in left if line.taken != run[0].taken]
    return runs


def fullest(lines: Sequence[Measurement]) -> list[Measurement]:
    """The lines of the run that timed the most kernels, the latest of several: a run of a few
    rungs does not hide one of them all."""
    sizes = Counter(line.taken for line in lines)
    most = max(sizes, key=lambda taken: (sizes[taken], taken))
    return [line for line in lines if line.taken == most]


def newest(lines: Sequence[Measurement]) -> list[Measurement]:
    """The lines of the latest run: those that share the largest `taken`."""
    latest = max(line.taken for line in lines)
    return [line for line in lines if line.taken == latest]


def render(readme_text: str, measurements: Iterable[Measurement]) -> str:
    """The README with the tables between its markers. Raises: InputError without one pair."""
    return between(readme_text, BEGIN, END, ladder_table(measurements), "the README")


def _table(lines: Sequence[Measurement]) -> str:
    first = lines[0]
    shape = f"{first.m}×{first.n}×{first.k} {first.layout}"
    driver = f"driver {first.driver}, " if first.driver else ""
    title = f"**{shape}, {first.dtype}, {first.machine}** ({driver}{first.taken[:10]})"
    note = f"{_clocks(lines)}Inputs: {first.inputs}, seed {first.seed}. {_methods(lines)}."
    return "\n".join([title, "", *_HEAD, *map(_row, lines), "", note])


def _row(line: Measurement) -> str:
    error = "–" if line.rel_error is None else f"{line.rel_error:.2e}"
    if line.correct is False:
        return f"| {line.name} | wrong | – | – | {error} |"
    speed = "–"
    if line.name == BASELINE:
        speed = "1.00"
    elif line.rival == BASELINE and line.ratio is not None:
        speed = f"{line.ratio:.2f}"
    return f"| {line.name} | {line.us:.1f} | {line.tflops:.1f} | {speed} | {error} |"


def _clocks(lines: Sequence[Measurement]) -> str:
    clocks = sorted(line.sm_mhz for line in lines if line.sm_mhz is not None)
    if not clocks:
        return ""
    span = f"{clocks[0]}" if clocks[0] == clocks[-1] else f"{clocks[0]}–{clocks[-1]}"
    return f"SM clock {span} MHz. "


def _methods(lines: Sequence[Measurement]) -> str:
    """How it was timed, without the figures that differ from line to line."""
    ways = dict.fromkeys(line.method.split(",")[0] for line in lines)
    return "Timed by " + "; ".join(ways)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command above; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.bench.report")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="end with 1 when the README is stale")
    mode.add_argument("--write", action="store_true", help="bring the README up to date")
    parser.add_argument("readme", type=Path)
    parser.add_argument("measurements", type=Path, help="a .jsonl file or a folder of them")
    chosen = parser.parse_args(arguments)
    try:
        return _run(chosen.readme, chosen.measurements, chosen.write)
    except (TilewrightError, OSError, UnicodeDecodeError) as error:
        print(error, file=sys.stderr)
        return 2


def _run(readme: Path, measurements: Path, write: bool) -> int:
    fresh = render(readme.read_text(encoding="utf-8"), load(measurements))
    remedy = f"bring it up to date with --write {readme} {measurements}"
    return settle(readme, fresh, check=not write, remedy=remedy)


if __name__ == "__main__":
    sys.exit(main())
