"""The user's source in a terminal, each line beside what it cost, findings under their line.

Plain characters say everything: ✗ marks a line with a finding, ! one above its ideal. Colour
only repeats it.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from io import StringIO
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from tilewright.emulator.by_line import (
    LineCounts,
    SourceFile,
    demand_words,
    files,
    finding_sentences,
    hunks,
    note_words,
    opcode_words,
    printable,
    times_ideal,
    title,
    total_words,
)
from tilewright.errors import InputError

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderResult

    from tilewright.emulator.report import Report

_BUSIEST = 3  # lines that are shown where none is above its ideal
_NARROWEST = 40  # columns that a view takes by itself
_LEAST_ROOM = 20  # for the source, in terminals too narrow for the table
_MARGIN = 4  # around a line's number
_NOTE = " " * 6
ORDERS = ("worst", "source")
_OLD_ORDERS = {"line": "source"}
_WORDS = re.compile(r"\s+|\S+")
_CODE = re.compile(r"[%\w.]+[,;)\]]*|.")  # a name with what closes behind it, or a sign


@dataclass(frozen=True, slots=True)
class _Column:
    """`name` is what a sentence calls it; `narrow` columns leave narrow views, the lowest first."""

    name: str
    heads: tuple[str, str]
    narrow: int
    value: Callable[[LineCounts], str]
    hot_if: Callable[[LineCounts], int] = lambda line: 0
    width: int = 0

    def fitted(self, lines: Iterable[LineCounts]) -> _Column | None:
        """As wide as its heads and the values of these lines; None where none has a value."""
        widest = max((len(self.value(line)) for line in lines), default=0)
        return replace(self, width=max(widest, *map(len, self.heads))) if widest else None


_COLUMNS = (
    _Column("requests", ("re-", "quests"), 2, lambda c: count_words(c.requests)),
    _Column("wavefronts", ("wave-", "fronts"), 3, lambda c: count_words(c.wavefronts)),
    _Column(
        "× ideal wavefronts",
        ("×", "ideal"),
        5,
        lambda c: times_ideal(c.wavefronts, c.wavefronts_ideal),
        lambda c: c.excess_wavefronts,
    ),
    _Column("sectors", ("", "sectors"), 4, lambda c: count_words(c.sectors)),
    _Column(
        "× ideal sectors",
        ("×", "ideal"),
        6,
        lambda c: times_ideal(c.sectors, c.sectors_ideal),
        lambda c: c.excess_sectors,
    ),
    _Column("issues", ("", "issues"), 1, lambda c: count_words(c.issues)),
)


class SourceView:
    """A report for rich's consoles.

    order="worst": the lines with findings and those above their ideal, the worst first.
    order="source": all lines with counts, from top to bottom ("line" means the same).
    `context` lines are shown around each, other lines left out; at most `limit` lines with
    counts are shown, the worst ones. `width` goes before the console's.
    Raises InputError for another order or a negative number.
    """

    def __init__(
        self,
        report: Report,
        *,
        order: str = "worst",
        context: int = 2,
        limit: int | None = None,
        width: int | None = None,
    ) -> None:
        order = _OLD_ORDERS.get(order, order)
        if order not in ORDERS:
            raise InputError(f'order={order!r} must be "worst" or "source".')
        if context < 0 or (limit is not None and limit < 0):
            raise InputError(f"context={context} and limit={limit} must not be negative.")
        self.report, self.order, self.context, self.limit = report, order, context, limit
        self.width = width

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text in self._lines(self.width or options.max_width):
            text.no_wrap, text.overflow = True, "ignore"
            yield text

    def _lines(self, width: int) -> Iterator[Text]:
        report = self.report
        style = "bold green" if report.passed else "bold red"
        yield from wrapped(Text(f"{title(report)}: {report.verdict}", style=style), width)
        for words in total_words(report):
            yield from wrapped(Text(words), width)
        for words in note_words(report):
            yield from wrapped(Text(words, style="yellow"), width)
        everything = files(report)
        chosen, notes = self._chosen([line for f in everything for line in f.counts.values()])
        yield from self._tables(everything, chosen, width)
        if notes:
            yield Text("")
            yield from wrapped(Text(notes, style="dim"), width)
        if report.demands:
            yield Text("")
        for met, words in demand_words(report):
            sign, style = ("✓", "green") if met else ("✗", "bold red")
            yield from wrapped(Text(f"{sign} {words}", style=style), width)

    def _tables(
        self, everything: list[SourceFile], chosen: list[LineCounts], width: int
    ) -> Iterator[Text]:
        """Each file with chosen lines, under the columns that all of them share."""
        numbers_of = {
            file.name: sorted(line.line for line in chosen if line.file == file.name)
            for file in everything
        }
        shown = [line for f in everything for line in self._shown(f, numbers_of[f.name])]
        digits = max((_digits(f) for f in everything if numbers_of[f.name]), default=0)
        columns, dropped = _columns(shown, width - digits - _MARGIN)
        if dropped:
            used = sum(column.width + 1 for column in (*columns, *dropped))
            said = _dropped_words(dropped, used + digits + _MARGIN + _LEAST_ROOM)
            yield from wrapped(Text(said, style="yellow"), width)
        for file in everything:
            if numbers := numbers_of[file.name]:
                yield Text("")
                unknown = " (the report does not hold its text)" if file.text is None else ""
                name = Text(printable(file.name) + unknown, style="bold")
                yield from wrapped(name, width)
                yield from _Listing(file, columns, width).lines(numbers, self.context, self.order)

    def _shown(self, file: SourceFile, numbers: list[int]) -> Iterator[LineCounts]:
        """The lines with counts among those that the listing of `numbers` holds."""
        for hunk in hunks(numbers, self.context, file.last):
            yield from (file.counts[number] for number in hunk if number in file.counts)

    def _chosen(self, lines: list[LineCounts]) -> tuple[list[LineCounts], str]:
        """The lines to show, and what to say of the others."""
        ranked = sorted(lines, key=lambda line: line.weight, reverse=True)
        if self.order == "source":
            chosen = ranked if self.limit is None else ranked[: self.limit]
            left = len(ranked) - len(chosen)
            return chosen, _left(left, "counts")
        bad = [line for line in ranked if line.matters]
        if not bad:
            busiest = [line for line in ranked if line.requests]
            chosen = busiest[: min(_BUSIEST, len(busiest) if self.limit is None else self.limit)]
            said = "No line is above its ideal; these are the busiest." if chosen else ""
            return chosen, said or "No access to memory was counted."
        chosen = bad if self.limit is None else bad[: self.limit]
        left = len(bad) - len(chosen)
        return chosen, _left(left, "findings or more than their ideal")


def _digits(file: SourceFile) -> int:
    return max(4, len(str(file.last)))


def _columns(lines: list[LineCounts], room: int) -> tuple[list[_Column], list[_Column]]:
    """The columns for which any of the lines has a value, and those that have no room.

    They leave the source at least _LEAST_ROOM cells of `room`.
    """
    kept = [fitted for column in _COLUMNS if (fitted := column.fitted(lines)) is not None]
    dropped: list[_Column] = []
    while kept and sum(column.width + 1 for column in kept) + _LEAST_ROOM > room:
        dropped.append(min(kept, key=lambda column: column.narrow))
        kept.remove(dropped[-1])
    return kept, dropped


def _dropped_words(dropped: list[_Column], needed: int) -> str:
    *most, last = (column.name for column in dropped)
    names = f"{', '.join(most)} and {last}" if most else last
    return f"Left out for want of room: {names}; {needed} columns show all."


def _left(count: int, what: str) -> str:
    if not count:
        return ""
    return f"{count} more lines have {what}." if count > 1 else f"One more line has {what}."


class _Listing:
    """One file's table."""

    def __init__(self, file: SourceFile, columns: list[_Column], width: int) -> None:
        self.file, self.columns, self.width = file, columns, width
        self.digits = _digits(file)
        used = sum(column.width + 1 for column in columns) + self.digits + _MARGIN
        self.room = max(_LEAST_ROOM, width - used)

    def lines(self, numbers: list[int], context: int, order: str) -> Iterator[Text]:
        yield from self._heads()
        around = context if self.file.text is not None else 0
        found = list(hunks(numbers, around, self.file.last))
        shown = set(numbers)
        if order == "worst":
            found.sort(key=lambda hunk: self._worst(hunk, shown), reverse=True)
        after = 1
        for place, hunk in enumerate(found):
            if order == "source":
                yield from self._elided(after, hunk.start)
            elif place:
                yield Text(_NOTE + "⋯", style="dim")
            for number in hunk:
                yield from self._line(number, number in shown)
            after = hunk.stop
        if order == "source":
            yield from self._elided(after, self.file.last + 1)

    def _worst(self, hunk: range, shown: set[int]) -> tuple[int, ...]:
        return max(self.file.counts[n].weight for n in hunk if n in shown)

    def _heads(self) -> Iterator[Text]:
        for row in (0, 1):
            cells = [column.heads[row].rjust(column.width) for column in self.columns]
            last = "line".rjust(self.digits) if row else " " * self.digits
            yield Text(" ".join([*cells, last]).rstrip(), style="dim")

    def _elided(self, first: int, stop: int) -> Iterator[Text]:
        count = stop - first
        if count > 0 and self.file.text is not None:
            yield Text(f"{_NOTE}⋯ {count} line{'s' * (count != 1)}", style="dim")

    def _line(self, number: int, shown: bool) -> Iterator[Text]:
        counts = self.file.counts.get(number)
        text = Text()
        for column in self.columns:
            value = column.value(counts) if counts is not None else ""
            hot = counts is not None and column.hot_if(counts) > 0
            text.append(value.rjust(column.width) + " ", style="bold red" if hot else "")
        mark = _mark(counts)
        text.append(str(number).rjust(self.digits), style="" if counts else "dim")
        text.append(f" {mark}│", style="bold red" if mark != " " else "dim")
        margin = len(text.plain) - 1
        whole = counts is not None and bool(counts.opcodes or counts.findings)
        for place, part in enumerate(self._parts(number, whole)):
            if place:
                text = Text(" " * margin)
                text.append("│", style="dim")
            text.append(part, style="" if counts else "dim")
            text.rstrip()
            yield text
        if shown and counts is not None:
            yield from self._notes(counts)

    def _parts(self, number: int, whole: bool) -> list[str]:
        """The line's text in rows: all of it, or as much as one row has room for."""
        text = self.file.line(number).rstrip()
        if cell_len(text) <= self.room:
            return [text]
        rows = _rows(text, self.room if whole else self.room - 1)
        return rows if whole else [rows[0].rstrip() + "…"]

    def _notes(self, counts: LineCounts) -> Iterator[Text]:
        if counts.excess or counts.accesses > 1 or self.file.text is None:
            yield from self._note("↳", opcode_words(counts), "cyan")
        for kind, said in finding_sentences(counts):
            apart = " " if said.startswith("at ") else ": "
            yield from self._note("✗", f"{kind}{apart}{said}", "bold red")

    def _note(self, sign: str, words: str, style: str) -> Iterator[Text]:
        room = max(_LEAST_ROOM, self.width - len(_NOTE) - 2)
        # A number stays with its opcode and its sign.
        bound = words.replace(" × ", "\u00a0×\u00a0").replace(" % ", "\u00a0% ")
        for place, line in enumerate(textwrap.wrap(bound, room, break_on_hyphens=False)):
            shown = line.replace("\u00a0", " ")
            yield Text(f"{_NOTE}{' ' if place else sign} {shown}", style=style)


def _rows(text: str, room: int) -> list[str]:
    """The text in rows of at most `room` cells, cut at blanks, else at signs, else anywhere.

    Rows after the first begin two columns deeper than the text does.
    """
    indent = " " * min(len(text) - len(text.lstrip()) + 2, room // 2)
    rows, row = [], ""
    for piece in _pieces(text, room - len(indent)):
        if cell_len(row) + cell_len(piece) > room and row.strip():
            rows.append(row.rstrip())
            row = indent + piece.lstrip()
        else:
            row += piece
        while cell_len(row) > room:  # a name longer than a row
            first = chop_cells(row, room)[0]
            rows.append(first)
            row = indent + row[len(first) :]
    return [*rows, row] if row.strip() or not rows else rows


def _pieces(text: str, room: int) -> Iterator[str]:
    """What stays together: words between blanks, those longer than a row in names and signs."""
    for word in _WORDS.findall(text):
        yield from [word] if cell_len(word) <= room else _CODE.findall(word)


def _mark(counts: LineCounts | None) -> str:
    if counts is None:
        return " "
    return "✗" if counts.findings else "!" if counts.excess else " "


def wrapped(text: Text, width: int) -> Iterator[Text]:
    """The text in rows of a width, cut at blanks; rich would take the console's width."""
    for line in textwrap.wrap(text.plain, max(_LEAST_ROOM, width)) or [""]:
        yield Text(line, style=text.style)


def count_words(value: int) -> str:
    """2,458,624, as everywhere else in a report; empty for 0."""
    return f"{value:,}" if value else ""


def terminal_width() -> int:
    """Columns of the terminal, or as COLUMNS says; 80 where there is neither."""
    return max(_NARROWEST, shutil.get_terminal_size().columns)


def to_text(
    report: Report,
    *,
    order: str = "worst",
    context: int = 2,
    limit: int | None = None,
    width: int | None = None,
) -> str:
    """The view as plain text, without colour. Raises InputError as `SourceView` does."""
    view = SourceView(report, order=order, context=context, limit=limit)
    width = terminal_width() if width is None else width
    console = Console(
        file=StringIO(), width=width, color_system=None, force_terminal=False, _environ={}
    )
    with console.capture() as captured:
        console.print(view)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
