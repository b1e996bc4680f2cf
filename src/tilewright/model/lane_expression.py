"""Whole-number expressions of the lane: `(lane % 16) * 64 + lane / 16 * 16`.

The operators, their ranks and their meaning are those of C: * / %, + -, << >>, < <= > >=, == !=,
&, ^, |, and - ~ ! before a value; / cuts toward zero, comparisons give 0 or 1. Numbers are decimal
or 0x…; a leading 0, octal in C, is refused. Nothing else can be written: text is parsed here, and
no part of it ever becomes Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tilewright.errors import InputError

Expression = Callable[[Mapping[str, int]], int]

_LANGUAGE = "( ) and the operators * / % + - << >> < <= > >= == != & ^ | ~ !"
_MOST_LETTERS = 300
_MOST_DEPTH = 40
_LIMIT = 1 << 48  # far beyond any address; values stay exact and cheap
_MOST_SHIFT = 47

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]{1,12}|0|[1-9]\d{0,14})[uU]?(?!\w)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark><<|>>|<=|>=|==|!=|[-+*/%&|^~!()<>]))",
    re.ASCII,
)
_RANKS: tuple[tuple[str, ...], ...] = (  # loosest first
    ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip


def parse(text: str, names: Sequence[str], what: str = "expression") -> Expression:
    """A function of the values of `names`.

    Raises: InputError, which calls the text `what`, for anything outside the grammar; and when
    the function is called, for a division by zero and for values beyond 48 bits.
    """
    return _Parser(text, tuple(names), what).whole()


class _Parser:
    def __init__(self, text: str, names: tuple[str, ...], what: str) -> None:
        self.names, self.what, self.depth, self.at = names, what, 0, 0
        self.shown = "".join(letter if letter.isprintable() else " " for letter in text).strip()
        if len(text) > _MOST_LETTERS:
            raise InputError(f"{what} has {len(text)} letters; {_MOST_LETTERS} are allowed.")
        self.tokens = self._split(text)

    def _split(self, text: str) -> list[tuple[str, str]]:
        tokens, at, end = [], 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.error(_unread(text[at:].strip()))
            kind = str(match.lastgroup)
            tokens.append((kind, match[kind]))
            at = match.end()
        return [*tokens, ("end", "")]

    def error(self, why: str) -> InputError:
        shown = self.shown if len(self.shown) <= 60 else f"{self.shown[:57]}…"
        return InputError(
            f'{self.what} "{shown}": {why}. It may hold {", ".join(self.names)}, whole '
            f"numbers, {_LANGUAGE}."
        )

    def take(self, marks: Sequence[str]) -> str | None:
        kind, text = self.tokens[self.at]
        if kind != "mark" or text not in marks:
            return None
        self.at += 1
        return text

    def whole(self) -> Expression:
        value = self.binary(0)
        if self.tokens[self.at][0] != "end":
            raise self.error(f"an operator is expected before {self.tokens[self.at][1]!r}")
        return value

    def binary(self, rank: int) -> Expression:
        if rank == len(_RANKS):
            return self.unary()
        left, operations = self.binary(rank + 1), 0
        while mark := self.take(_RANKS[rank]):
            operations += 1
            if operations + self.depth > _MOST_DEPTH:
                raise self.error(f"it has more than {_MOST_DEPTH} operations in a row")
            left = self.joined(mark, left, self.binary(rank + 1))
        return left

    def unary(self) -> Expression:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise self.error(f"it is nested deeper than {_MOST_DEPTH}")
        mark = self.take("-~!")
        value = self.atom() if mark is None else _negated(mark, self.unary())
        self.depth -= 1
        return value

    def atom(self) -> Expression:
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            number = int(text, 16) if text[:2] in ("0x", "0X") else int(text)
            return lambda values: number
        if kind == "name":
            if text not in self.names:
                raise self.error(f"{text!r} is not known")
            return lambda values: values[text]
        if text == "(":
            value = self.binary(0)
            if not self.take(")"):
                raise self.error("a ) is missing")
            return value
        raise self.error(f"a value is expected {f'before {text!r}' if text else 'at the end'}")

    def joined(self, mark: str, left: Expression, right: Expression) -> Expression:
        operate = _OPERATIONS[mark]

        def value(values: Mapping[str, int]) -> int:
            a, b = left(values), right(values)
            if mark in "/%" and not b:
                raise self.error("it divides by zero")
            if mark in ("<<", ">>") and not 0 <= b <= _MOST_SHIFT:
                raise self.error(f"it shifts by {b}, and 0..{_MOST_SHIFT} is allowed")
            result = operate(a, b)
            if not -_LIMIT < result < _LIMIT:
                raise self.error("a value leaves 48 bits")
            return result

        return value


def _unread(rest: str) -> str:
    if rest[:1] == "0" and rest[1:2].isdigit():
        return "a number that begins with 0 is octal in C; write it without the 0, or as 0x"
    return f"{rest[:8]!r} means nothing here"


def _negated(mark: str, inner: Expression) -> Expression:
    match mark:
        case "-":
            return lambda values: -inner(values)
        case "~":
            return lambda values: ~inner(values)
    return lambda values: int(not inner(values))


def _quotient(a: int, b: int) -> int:
    size = abs(a) // abs(b)
    return size if (a < 0) == (b < 0) else -size


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": lambda a, b: a - b * _quotient(a, b),
}
