"""`tilewright import-record`: measurements of another GPU, checked before they join a record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tilewright.cli.options import JsonTarget
from tilewright.cli.output import check_targets, emit
from tilewright.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tilewright.bench.imports import Import


_MOST_ROWS = 40  # of a table; a longer one shows only what was refused


def import_record(
    file: Path,
    /,
    *,
    into: Path,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    json: JsonTarget = None,
) -> int:
    """Add measurements taken elsewhere to a record, if all of them stand up to a check.

    Figures must follow from their samples, results be right, speeds possible on that GPU, and
    the code be the one that is here. If one line is refused, nothing is written and the exit
    code is 1.

    Example: tilewright import-record measurements/h200-hgemm.jsonl --into new.jsonl --dry-run

    It shows which lines of the record are of this version of the code, and refuses the others.

    Parameters
    ----------
    file
        The .jsonl file to check, as --record of other commands writes it.
    into
        The .jsonl file that the lines are appended to; it may be new.
    dry_run
        Check only; write nothing.
    """
    from tilewright.bench.imports import check
    from tilewright.bench.record import append, load

    if into.suffix != ".jsonl" or into.is_dir():
        raise InputError(f"into={into} must be a .jsonl file; others are not read.")
    if json is not None and Path(json).resolve() in (file.resolve(), into.resolve()):
        raise InputError(f"--json {json} would overwrite measurements; name another file.")
    check_targets(json, None if dry_run else into)
    checked = check(file, load(into) if into.exists() else ())
    write = checked.fine and not dry_run
    if write:
        append(into, checked.measurements)
    emit("import-record", checked.to_dicts(), _render(checked, into, write), json)
    return 0 if checked.fine else 1


def _render(checked: Import, into: Path, written: bool) -> RenderableType:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("line", justify="right", no_wrap=True)
    for heading in ("kernel", "GPU"):
        table.add_column(heading, overflow="fold")
    table.add_column("status", no_wrap=True)
    table.add_column("reason", overflow="fold")
    refused = [row for row in checked.rows if row.status != "ok"]
    for row in refused if len(checked.rows) > _MOST_ROWS else checked.rows:
        style = "green" if row.status == "ok" else "bold red"
        cells = (row.name or "–", row.gpu or "–", Text(row.status, style=style), row.reason or "")
        table.add_row(str(row.line), *(Text(c) if isinstance(c, str) else c for c in cells))
    if not table.row_count:
        return Text(_sentence(checked, into, written), style="bold")
    return Group(table, Text(_sentence(checked, into, written), style="bold"))


def _sentence(checked: Import, into: Path, written: bool) -> str:
    count = len(checked.rows)
    if written:
        return f"{count} of {count} lines added to {into}."
    refused = sum(row.status == "refused" for row in checked.rows)
    if refused:
        return f"{refused} of {count} lines refused; nothing was written to {into}."
    return f"{count} of {count} lines are fine; a dry run writes nothing to {into}."
