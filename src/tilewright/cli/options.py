"""Kinds of options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter, Token

JsonTarget = Annotated[
    str | None,
    Parameter(
        name="--json",
        allow_leading_hyphen=True,
        help="Write a JSON document to this file; with - to stdout, tables go to stderr.",
    ),
]


_MOST_DIGITS = 40


def _whole(_: object, tokens: Sequence[Token]) -> int:
    """An int and nothing near it: 128.5 is refused, not cut."""
    word = tokens[0].value
    if len(word) > _MOST_DIGITS:
        raise ValueError(f"{word[:_MOST_DIGITS]}… is longer than any number that is taken.")
    try:
        return int(word)
    except ValueError:
        raise ValueError(f"{word!r} is not a whole number.") from None


Whole = Annotated[int, Parameter(allow_leading_hyphen=True, converter=_whole)]
MaybeWhole = Annotated[int | None, Parameter(allow_leading_hyphen=True, converter=_whole)]
