"""PTX text → statements: cut at ; { } labels and line directives, comments gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.errors import UnsupportedError

_COMMENT = re.compile(r'("[^"\n]*")|//[^\n]*|/\*.*?(?:\*/|\Z)', re.S)
_MARK = re.compile(r'"[^"\n]*"|::|[;{}:()\[\]\n]')
_LINE_DIRECTIVE = (".loc", ".file", ".version", ".target", ".address_size")
_SCOPE = re.compile(r"(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func|section)\b|$")
_LABEL = re.compile(r"[A-Za-z_$%][\w$]*$")


@dataclass(frozen=True, slots=True)
class Statement:
    kind: str  # "statement" | "directive" | "label" | "open" | "close"
    text: str
    line: int


def without_comments(text: str) -> str:
    """The text with a blank for each comment; its lines keep their numbers."""
    return _COMMENT.sub(lambda m: m[1] or " " + "\n" * m.group().count("\n"), text)


def statements(text: str) -> Iterator[Statement]:
    """Cuts a text without comments; braces of vectors and initialisers stay inside.

    Raises: UnsupportedError when the text stops inside a statement.
    """
    start, line, first = 0, 1, 0
    brackets = vectors = 0
    for mark in _MARK.finditer(text := text + "\n"):
        char, at = mark.group(), mark.start()
        so_far = text[start:at].strip()
        if so_far and not first:
            first = line
        if char == "\n":
            line += 1
            if so_far.startswith(_LINE_DIRECTIVE):
                yield Statement("directive", so_far, first)
            elif so_far:
                continue
        elif char in "([)]":
            brackets += 1 if char in "([" else -1
            continue
        elif char == "{" and not brackets and not vectors and _SCOPE.match(so_far):
            yield Statement("open", so_far, first or line)
        elif char == "{" or (char == "}" and vectors):
            vectors += 1 if char == "{" else -1
            continue
        elif char == "}":
            yield Statement("close", so_far, first or line)
        elif char == ";" and not vectors:
            yield Statement("statement", so_far, first or line)
            brackets = 0  # an unpaired one does not reach past its statement
        elif char == ":" and not brackets and not vectors and _LABEL.match(so_far):
            yield Statement("label", so_far, first)
        else:
            continue
        start, first = mark.end(), 0
    if rest := text[start:].strip():
        raise UnsupportedError(f"PTX line {first}: the text stops inside {rest[:60]!r}.")
