"""Tables that are as wide as their numbers, so that none is cut to an ellipsis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group
from rich.measure import Measurement
from rich.protocol import rich_cast
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_WIDEST = 10_000  # columns: more than any table has
_WORDS = 20  # columns that are enough for texts which go on in the next line


def print_whole(console: Console, what: RenderableType) -> None:
    """Prints `what`, each table in it with the columns that it needs, the rest in the console's.

    A table's `no_wrap` columns are shown whole: figures belong there, for a narrowed one ends in
    "…", which reads like another number.
    """
    usual = console.width
    try:
        for part in _parts(what):
            needed = _needed(console, part) if isinstance(part, Table) else 0
            console.width = max(usual, needed)
            console.print(part)
    finally:
        console.width = usual


def _parts(what: RenderableType) -> Iterator[RenderableType]:
    inner = rich_cast(what)
    if isinstance(inner, Group):
        for part in inner.renderables:
            yield from _parts(part)
    else:
        yield inner


def _needed(console: Console, table: Table) -> int:
    room = console.options.update(width=_WIDEST)
    needed = Measurement.get(console, room, table).maximum
    for column in table.columns:
        if not column.no_wrap:
            cells = (column.header, *column.cells)
            widest = max(Measurement.get(console, room, cell).maximum for cell in cells)
            needed -= max(widest - _WORDS, 0)
    return needed
