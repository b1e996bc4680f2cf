"""`tilewright compare`: has a kernel become slower from one record to another?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tilewright.cli.options import JsonTarget
from tilewright.cli.output import check_targets, emit

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from tilewright.bench.compare import Comparison, Row

_BAD = "bold red"
_STYLES = {"slower": _BAD, "wrong": _BAD, "gone": _BAD, "faster": "green", "ok": ""}
_MOST_ROWS = 40  # of a table; a longer one shows only what is not ok


def compare(
    old: Path,
    new: Path,
    /,
    *,
    fail_below: Annotated[float, Parameter(allow_leading_hyphen=True)] = 0.98,
    json: JsonTarget = None,
) -> int:
    """Compare two records, and end with 1 when a kernel became slower, wrong or is gone.

    Compared is each kernel's speed in relation to the rival that was timed beside it: times of
    two runs are not comparable, since GPUs of one name differ. Of each kernel, shape, type and
    GPU the newest line of each side counts. Beside each change stands the noise of its rounds;
    between two runs there is more of it, several per cent at a GPU's power cap.

    Example: tilewright compare measurements measurements

    Parameters
    ----------
    old
        What was measured before: a .jsonl file, or a folder of them.
    new
        What was measured now: a .jsonl file, or a folder of them.
    fail_below
        A kernel is slower when its ratio fell below this part of the old one (0.98: by more than
        2 %), and faster when it rose by as much.
    """
    from tilewright.bench.compare import compare as comparison
    from tilewright.bench.record import load

    check_targets(json, reads=(old, new))
    result = comparison(load(old), load(new), fail_below)
    emit("compare", result.to_dicts(), _render(result), json)
    return 0 if result.fine else 1


def _render(result: Comparison) -> RenderableType:
    """A table for each GPU and type, what is to be said of rows, and the mean as last line."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for title, rows in groupby(result.rows, key=lambda row: f"{row.dtype} on {row.gpu}"):
        every = list(rows)
        shown = every if len(every) <= _MOST_ROWS else [row for row in every if row.status != "ok"]
        parts += [Text(title, style="italic"), *([_table(shown)] if shown else [])]
        if hidden := len(every) - len(shown):
            parts.append(Text(f"{hidden} rows are ok and not shown; --json has them all.\n"))
    parts += [Text(note) for note in _notes(result)]
    mean, count = result.geometric_mean, len(result.changes)
    figure = "nothing could be compared" if mean is None else f"{mean:.3f}"
    said = f"{result.counts}; geometric mean of {count} changes: {figure}"
    parts.append(Text(said, style="bold"))
    return Group(*parts)


def _table(rows: list[Row]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="bold")
    for heading in ("kernel", "shape", "÷", "old", "new", "change", "noise", "status"):
        number = heading in ("old", "new", "change", "noise")
        fold = heading == "÷"  # a long name goes on in a second line
        justify, overflow = ("right" if number else "left"), ("fold" if fold else "ellipsis")
        table.add_column(heading, justify=justify, overflow=overflow, no_wrap=not fold)  # type: ignore[arg-type]
    for row in rows:
        figures = (row.old_ratio, row.new_ratio, row.change)
        table.add_row(
            Text(row.name),
            f"{row.m}×{row.n}×{row.k} {row.layout}",
            Text(row.rival or "–"),
            *("–" if figure is None else f"{figure:.3f}" for figure in figures),
            _noise(row.noise),
            Text(row.status, style=_STYLES.get(row.status, "yellow")),
        )
    return table


def _noise(noise: float | None) -> str:
    if noise is None:
        return "–"
    return "<0.1%" if noise < 0.001 else f"±{noise:.1%}"


def _notes(result: Comparison) -> Iterator[str]:
    """Each reason once, with the kernels it is of."""
    kernels: dict[str, list[str]] = {}
    for row in result.rows:
        if row.reason is not None:
            kernels.setdefault(row.reason, []).append(row.name)
    for reason, names in kernels.items():
        yield f"{', '.join(dict.fromkeys(names))}: {reason}"
