"""Tables made from measurement lines, and only from them.

    python -m tilewright.bench.report --write README.md measurements/
    python -m tilewright.bench.report --check README.md measurements/

The first puts the tables between the README's markers; the second ends with 1 when the README
does not show what the measurements say, and both with 2 when something cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.bench.record import Measurement, load
from tilewright.errors import InputError, TilewrightError

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
    """One Markdown table for each GPU, type and shape, of the newest run there is of it.

    Rows keep the order of their lines. Time is the median over rounds, speed the median of the
    rounds' ratios to torch ("–" where a line has another rival or none), error ‖C−R‖F ÷ ‖R‖F.
    A line that was found wrong shows no figures.
    """
    groups: dict[_Group, list[Measurement]] = {}
    for line in measurements:
        if line.is_roof:
            continue
        group = (line.machine, line.dtype, line.m, line.n, line.k, line.layout)
        groups.setdefault(group, []).append(line)
    if not groups:
        return "Nothing has been measured yet."
    return "\n\n".join(_table(newest(groups[group])) for group in sorted(groups))


def newest(lines: Sequence[Measurement]) -> list[Measurement]:
    """The lines of the latest run: those that share the largest `taken`."""
    latest = max(line.taken for line in lines)
    return [line for line in lines if line.taken == latest]


def render(readme_text: str, measurements: Iterable[Measurement]) -> str:
    """The README with the tables between its markers. Raises: InputError without one pair."""
    return between(readme_text, BEGIN, END, ladder_table(measurements), "the README")


def between(text: str, begin: str, end: str, part: str, page: str = "the page") -> str:
    """The text with this part between its two markers. Raises: InputError without one pair."""
    if text.count(begin) != 1:
        raise InputError(f"{page} holds {begin} {text.count(begin)} times; it must once.")
    before, rest = text.split(begin)
    if end not in rest:
        raise InputError(f"{page}'s {begin} is not followed by {end}.")
    after = rest.split(end, 1)[1]
    return f"{before}{begin}\n{part}\n{end}{after}"


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
    old = readme.read_text(encoding="utf-8")
    new = render(old, load(measurements))
    if new == old:
        return 0
    if write:
        readme.write_text(new, encoding="utf-8")
        return 0
    print(f"{readme} is stale; bring it up to date with --write {readme} {measurements}.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
