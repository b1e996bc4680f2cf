"""Drawing with letters: what the `explain` commands share.

Colour only repeats what letters say, so that NO_COLOR, pipes and files lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.text import Text

_EIGHTHS = " ▏▎▍▌▋▊▉"
COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red")


@dataclass(frozen=True)
class Drawing:
    """Lines drawn for the columns that there are, which the terminal or COLUMNS says."""

    draw: Callable[[int], Iterable[RenderableType]]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        yield from self.draw(options.max_width)


def line(*parts: str | tuple[str, str]) -> Text:
    """A line of plain words and of (words, style)."""
    from rich.text import Text

    return Text.assemble(*parts)


def heading(words: str) -> Text:
    return line((words, "bold"))


def bar(value: float, most: float, width: int) -> str:
    """A bar of `width` letters for `most`, to an eighth of a letter; at least a sliver above 0."""
    eighths = round(8 * width * min(max(value / most, 0.0), 1.0)) if most > 0 else 0
    if value > 0:
        eighths = max(eighths, 1)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def figures(pairs: Iterable[tuple[str, str]], width: int, indent: int = 2) -> list[Text]:
    """Lines of a name and its value, the values under each other, long ones on several lines."""
    rows = list(pairs)
    start = indent + 2 + max((len(name) for name, _ in rows), default=0)
    lines = []
    for name, value in rows:
        first, *rest = wrap(value, max(width - start, 20)) or [""]
        lines.append(line(((" " * indent + name).ljust(start), "dim"), first))
        lines += [line(" " * start + more) for more in rest]
    return lines


def sentence(words: str, width: int, style: str = "") -> list[Text]:
    """A text in lines of at most `width` letters."""
    return [line((part, style)) for part in wrap(words, max(width, 20)) or [""]]


def size(count: float) -> str:
    """Bytes for people: 8192 B, 48.0 KiB, 2.00 GiB."""
    if count < 10240:
        return f"{count:,.0f} B"
    for unit, scale in (("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)):
        if count < 1000 * scale or unit == "GiB":
            shown = count / scale
            return f"{shown:,.0f} {unit}" if shown >= 100 else f"{shown:.3g} {unit}"
    raise AssertionError("unreachable")
