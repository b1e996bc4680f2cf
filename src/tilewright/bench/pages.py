"""Pages that are made by a command: written, or checked for being up to date."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from pathlib import Path

from tilewright.errors import InputError, TilewrightError


def between(text: str, begin: str, end: str, part: str, name: str) -> str:
    """The text of the page called `name` with this part on lines between its two marks.

    Raises: InputError without one pair of marks.
    """
    if (count := text.count(begin)) != 1:
        raise InputError(f"{name} holds {begin} {count} times; it must once.")
    before, rest = text.split(begin)
    if end not in rest:
        raise InputError(f"{name}'s {begin} is not followed by {end}.")
    after = rest.split(end, 1)[1]
    return f"{before}{begin}\n{part}\n{end}{after}"


def settle(
    page: Path,
    fresh: str,
    *,
    check: bool,
    remedy: str,
    same: Callable[[str, str], bool] = operator.eq,
) -> int:
    """Writes what the page must hold, or, with `check`, says whether it does.

    Returns 0, or 1 for a stale page, of which a sentence on stderr says what to do (`remedy`).
    `same` tells whether two texts are as good as each other.
    """
    try:
        there = page.read_text(encoding="utf-8")
    except FileNotFoundError:
        there = ""
    if check and not same(there, fresh):
        print(f"{page} is stale; {remedy}.", file=sys.stderr)
        return 1
    if not check and there != fresh:
        page.write_text(fresh, encoding="utf-8")
    return 0


def ended(main: Callable[[list[str]], int]) -> int:
    """A script's exit code, with this command line: 2 and a sentence where it raises."""
    try:
        return main(sys.argv[1:])
    except TilewrightError as error:
        print(error, file=sys.stderr)
        return 2
