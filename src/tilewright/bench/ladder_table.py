"""The ladder's result for people: a table in the terminal or in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from tilewright.bench.meaning import meaning
from tilewright.ladder.rungs import RUNGS
from tilewright.table_width import print_whole

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tilewright.bench.ladder import Ladder, Row

_LEGEND = """\
Counts, not times:
wavefronts  passes over the banks of shared memory, up to 128 bytes each
ideal       the passes that the bytes need (staging C in it needs more)
conflicts   wavefronts beyond the ideal, cp.async aside: it has its own rules
sectors     pieces of 32 bytes of global memory that are touched
error       of C against float64; ✓ where each element is within its bound"""


def render(ladder: Ladder) -> RenderableType:
    """The table with its title and notes; one for each type of elements."""
    shown = ladder.parts or (ladder,)
    parts: list[RenderableType] = []
    for part in shown:
        parts.append(Text(f"C = A·B, {part.problem} on {part.engine}", style="italic"))
        parts += _FORMS[_engine(part)](part)
    if any(_engine(part) == "emulator" for part in shown):
        parts.append(Text(_LEGEND, style="dim"))
    if rival := next((row.rival for row in ladder.rows if row.rival), None):
        said = f"speedup: {rival}'s time ÷ this one's, the median of interleaved rounds"
        parts.append(Text(said, style="dim"))
    wrong = [row for row in ladder.rows if row.status == "wrong"]
    parts += [Text(f"{row.name} is wrong: {row.reason}", style="bold red") for row in wrong]
    parts += [Text(f"Note: {note}", style="yellow") for note in ladder.notes]
    return Group(*parts)


def _engine(part: Ladder) -> str:
    """What ran a part; all its rows name the same."""
    return part.rows[0].engine


def to_text(ladder: Ladder) -> str:
    """The same as plain text."""
    console = Console(file=StringIO(), width=100)
    with console.capture() as captured:
        print_whole(console, render(ladder))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def to_html(ladder: Ladder) -> str:
    """The same as HTML, for notebooks."""
    console = Console(record=True, file=StringIO(), width=140)
    print_whole(console, render(ladder))
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("\nrung", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _counted(ladder: Ladder) -> Table:
    table = _table(
        "shared\nwavefronts",
        "\nideal",
        "bank\nconflicts",
        "sectors\nloaded",
        "sectors\nstored",
        "rel.\nerror",
    )
    for row in ladder.rows:
        counts = (
            row.shared_wavefronts,
            row.shared_wavefronts_ideal,
            row.bank_conflicts,
            row.global_sectors_load,
            row.global_sectors_store,
        )
        table.add_row(row.name, *map(_number, counts), _error(row))
    return table


def _timed(ladder: Ladder) -> Table:
    table = _table(
        "median\nµs", "\nTFLOP/s", "\nspeedup", "\nregisters", "blocks\nper SM", "rel.\nerror"
    )
    for row in ladder.rows:
        table.add_row(
            row.name,
            "" if row.us is None else f"{row.us:,.1f}",
            "" if row.tflops is None else f"{row.tflops:,.1f}",
            "" if row.speedup is None else f"{row.speedup:.2f}",
            _number(row.registers),
            _number(row.blocks_per_sm),
            _error(row),
        )
    return table


def _why(ladder: Ladder) -> RenderableType:
    """For each rung its idea, and what its counts say, the later ones against the one before."""
    table = Table(box=None, show_header=False, pad_edge=False)
    before: Row | None = None
    for row in ladder.rows:
        before = before if before and before.family == row.family else None
        report = ladder.reports.get(row.name)
        if report is None:
            table.add_row(row.name, Text(row.reason or "", style="yellow"))
            continue
        said = Text(_sentence(RUNGS[row.name].idea) + "\n")
        remarks = meaning(report, ladder.reports[before.name] if before else None)
        against = f"Against {before.name}: " if before and remarks else ""
        said.append(_sentence(against + "; ".join(remarks or ["The same counts"])), style="cyan")
        table.add_row(Text(row.name, style="bold"), said)
        before = row
    return table


def _on_host(ladder: Ladder) -> Table:
    table = _table("median\nµs", "\nGFLOP/s", "rel.\nerror")
    for row in ladder.rows:
        table.add_row(
            row.name,
            "" if row.us is None else f"{row.us:,.1f}",
            "" if row.tflops is None else f"{1e3 * row.tflops:,.3g}",
            _error(row),
        )
    return table


def _checked(ladder: Ladder) -> Table:
    table = _table("rel.\nerror")
    for row in ladder.rows:
        table.add_row(row.name, _error(row))
    return table


def _ideas(ladder: Ladder) -> RenderableType:
    """For each rung its idea, or why it is skipped."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for row in ladder.rows:
        if row.status == "skipped":
            table.add_row(row.name, Text(row.reason or "", style="yellow"))
        else:
            table.add_row(Text(row.name, style="bold"), _sentence(RUNGS[row.name].idea))
    return table


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _error(row: Row) -> Text:
    if row.status == "skipped":
        return Text("skipped", style="yellow")
    right = row.status == "ok"
    shown = "" if row.rel_error is None else f"{row.rel_error:.1e} "
    return Text(shown + ("✓" if right else "✗ wrong"), style="green" if right else "bold red")


_HOST = "Wall clock of single runs on the host, not interleaved: for orders of magnitude."
# By the engine of a part's rows, what stands below its title.
_FORMS: dict[str, Callable[[Ladder], list[RenderableType]]] = {
    "gpu": lambda part: [_timed(part)],
    "emulator": lambda part: [_counted(part), _why(part), Text("")],
    "interpreter": lambda part: [_checked(part), _ideas(part), Text("")],
    "cpu": lambda part: [_on_host(part), _ideas(part), Text(_HOST, style="dim"), Text("")],
}
