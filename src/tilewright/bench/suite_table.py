"""The suites' rows for people and for other programs: tables, CSV, Markdown."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from tilewright.bench.suite_run import summarise

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tilewright.bench.suite_run import Row, SuiteRun, Summary


def render(run: SuiteRun) -> RenderableType:
    """One table of all rows, one of the suites, and the notes."""
    timed = [row for row in run.rows if row.engine != "emulator"]  # even those that are wrong
    counted = [row for row in run.rows if row.engine == "emulator"]
    parts: list[RenderableType] = [Text(f"{_what(run)} on {run.engine}", style="italic")]
    parts += [_counted(counted)] if counted or not timed else []
    parts += [_timed(timed)] if timed else []
    parts += [Text(line, style="dim") for line in _conditions(run.rows)]
    for row in run.rows:
        if row.status == "wrong":
            wrong = f"{row.name} is wrong at {_shape(row)}: {row.reason}"
            parts.append(Text(wrong, style="bold red"))
    if summaries := summarise(run.rows):
        parts.append(_summaries(summaries))
    parts += [Text(f"Note: {note}", style="yellow") for note in run.notes]
    return Group(*parts)


def _what(run: SuiteRun) -> str:
    if not run.rows:
        return "Nothing"
    row = run.rows[0]
    return f"{row.dtype}, {row.inputs} inputs, {row.cache} cache,"


def _conditions(rows: Sequence[Row]) -> list[str]:
    """What the GPU's own limits did while the rows were measured."""
    timed = [row for row in rows if row.us is not None]
    if not timed:
        return []
    lines = []
    clocks = [row.sm_mhz for row in timed if row.sm_mhz is not None]
    watts = [row.power_w for row in timed if row.power_w is not None]
    if clocks and watts:
        lines.append(
            f"SM clock {min(clocks)}–{max(clocks)} MHz at {min(watts):.0f}–{max(watts):.0f} W."
        )
    reasons = Counter(reason for row in timed for reason in row.throttle or ())
    lines += [
        f"{count} of {len(timed)} kernels ran below the highest clock: {reason}."
        for reason, count in reasons.most_common()
    ]
    return lines


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="bold")
    for heading in headings:
        left = heading in ("shape", "kernel", "suite", "worst shape")
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    return table


def _tflops(row: Row) -> str:
    """With a decimal; the host's, which are small, with two digits."""
    if row.tflops is None:
        return ""
    return f"{row.tflops:.2g}" if row.engine == "cpu" else f"{row.tflops:,.1f}"


def _shape(row: Row) -> str:
    return f"{row.m}×{row.n}×{row.k} {row.layout}"


def _timed(rows: Sequence[Row]) -> Table:
    rival = next((row.rival for row in rows if row.rival), "rival")
    table = _table("shape", "kernel", "µs", "TFLOP/s", f"÷ {rival}", "p20–p80", "of the roof")
    shape = ""
    for row in rows:
        if row.status == "skipped":
            continue
        first = _shape(row) if _shape(row) != shape else ""
        shape = _shape(row)
        if row.us is None:
            table.add_row(first, row.name, Text("wrong", style="bold red"), "", "", "", "")
            continue
        spread = "" if row.ratio_p20 is None else f"{row.ratio_p20:.2f}–{row.ratio_p80:.2f}"
        ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
        roof = "" if row.roof_share is None else f"{row.roof_share:.0%} {row.roof}"
        table.add_row(first, row.name, f"{row.us:,.1f}", _tflops(row), ratio, spread, roof)
    return table


def _counted(rows: Sequence[Row]) -> Table:
    table = _table("shape", "kernel", "wavefronts", "conflicts", "sectors", "result")
    for row in rows:
        if row.status == "skipped":
            continue
        counts = (row.shared_wavefronts, row.bank_conflicts, row.global_sectors)
        table.add_row(_shape(row), row.name, *(f"{count:,}" for count in counts), row.status)
    return table


def _summaries(summaries: Sequence[Summary]) -> Table:
    table = _table("suite", "rows", "kernel", "shapes", "geo. mean", "worst", "worst shape")
    for one in summaries:
        table.add_row(
            one.suite,
            "aligned" if one.aligned else "unaligned",
            one.name,
            str(one.shapes),
            f"{one.geometric_mean:.3f}",
            f"{one.worst:.3f}",
            one.worst_shape,
        )
    return table


def to_csv(run: SuiteRun) -> str:
    """All fields of all rows, with a header line; each peer's ratio has a column of its own."""
    peers = dict.fromkeys(name for row in run.rows for name in row.ratios or ())
    rows = []
    for row in run.to_dicts():
        ratios = row.pop("ratios") or {}
        row["throttle"] = None if row["throttle"] is None else "; ".join(row["throttle"]) or "none"
        rows.append(row | {f"ratio_{name}": ratios.get(name) for name in peers})
    text = StringIO(newline="")
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def to_markdown(run: SuiteRun) -> str:
    """The timed rows as a table, or the counted ones where nothing was timed."""
    if all(row.us is None for row in run.rows):
        return _counted_markdown(run.rows)
    rival = next((row.rival for row in run.rows if row.rival), "rival")
    heading = f"| shape | kernel | µs | TFLOP/s | speed ÷ {rival} | of the roof | error |"
    lines = [heading, "|:--|:--|--:|--:|--:|--:|--:|"]
    for row in run.rows:
        if row.us is None or row.tflops is None:
            continue
        ratio = "–" if row.ratio is None else f"{row.ratio:.3f}"
        error = "–" if row.rel_error is None else f"{row.rel_error:.2e}"
        roof = "–" if row.roof_share is None else f"{row.roof_share:.0%} {row.roof}"
        cells = (
            _shape(row),
            row.name,
            f"{row.us:.1f}",
            _tflops(row).replace(",", ""),
            ratio,
            roof,
            error,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _counted_markdown(rows: Sequence[Row]) -> str:
    lines = ["| shape | kernel | wavefronts | conflicts | sectors | result |"]
    lines.append("|:--|:--|--:|--:|--:|:--|")
    for row in rows:
        if row.status != "skipped":
            counts = (row.shared_wavefronts, row.bank_conflicts, row.global_sectors)
            cells = (_shape(row), row.name, *map(str, counts), row.status)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
