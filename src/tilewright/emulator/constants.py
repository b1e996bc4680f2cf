"""Constant expressions in PTX: `(3+4)*2`, `WARP_SZ-1`, `0xF0>>4`. PTX ISA, "Constant Expressions".

Integers have 64 bits, signed unless they are written with U or do not fit; floats are doubles.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.emulator.ir import Immediate
from tilewright.emulator.literals import number

_TOKEN = re.compile(
    r"\s*(?:(?P<literal>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+[uU]?"
    r"|0[bB][01]+[uU]?|(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+[uU]?|WARP_SZ)"
    r"|(?P<cast>\.[su]64)|(?P<sign><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&^|~!?:()]))"
)
_STARTS = re.compile(r"[\d.(+\-~!]|WARP_SZ")
_BINDS = {  # how tightly; as in C
    "||": 1,
    "&&": 2,
    "|": 3,
    "^": 4,
    "&": 5,
    **dict.fromkeys(("==", "!="), 6),
    **dict.fromkeys(("<", "<=", ">", ">="), 7),
    **dict.fromkeys(("<<", ">>"), 8),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("*", "/", "%"), 10),
}
_TESTS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": lambda a, b: a << min(b & 0xFFFF_FFFF, 64),
    ">>": lambda a, b: a >> min(b & 0xFFFF_FFFF, 64),
}
_DEEPEST = 60  # parentheses and signs within each other
_WORD = 1 << 64


@dataclass(frozen=True, slots=True)
class _Value:
    value: int | float
    unsigned: bool = False


def constant(text: str) -> Immediate | None:
    """The value of a literal or a constant expression; None for what is neither.

    Raises ValueError for a division by zero and the like.
    """
    inner = text
    while inner.startswith("(") and inner.endswith(")"):
        inner = inner[1:-1].strip()
    if (literal := number(inner)) is not None or not _STARTS.match(text):
        return literal
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        kind = str(match.lastgroup)
        tokens.append((kind, match[kind]))
        at = match.end()
    return _Expression(tokens, text).read()


class _Expression:
    """Reads tokens by precedence."""

    def __init__(self, tokens: list[tuple[str, str]], text: str) -> None:
        self.tokens, self.text = tokens, text
        self.at = self.depth = 0

    def read(self) -> Immediate:
        found = self._value(0).value
        if self.at < len(self.tokens):
            raise ValueError(f"{self.text!r} is not a constant expression")
        if isinstance(found, float):
            return Immediate(int.from_bytes(struct.pack("<d", found), "little"), 8)
        return Immediate(found)

    def _next(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def _take(self, sign: str) -> None:
        if self._next() != sign:
            raise ValueError(f"{self.text!r} lacks a {sign}")
        self.at += 1

    def _value(self, least: int) -> _Value:
        """What stands here, with the operators that bind tighter than `least`."""
        left = self._first()
        while (binds := _BINDS.get(sign := self._next(), 0)) > least:
            self.at += 1
            left = self._binary(sign, left, self._value(binds))
        if least == 0 and self._next() == "?":
            self.at += 1
            yes = self._value(0)
            self._take(":")
            no = self._value(0)
            left = yes if left.value else no
        return left

    def _first(self) -> _Value:
        """A literal, a sign or a cast with what follows it, or parentheses."""
        if self.at >= len(self.tokens) or self.depth > _DEEPEST:
            what = "nested too deeply" if self.at < len(self.tokens) else "cut off"
            raise ValueError(f"the expression {self.text[:60]!r} is {what}")
        kind, word = self.tokens[self.at]
        self.at += 1
        self.depth += 1
        if kind == "literal":
            found = _literal(word)
        elif word == "(" and self._is_cast():
            cast, self.at = self._next(), self.at + 2
            found = _integer(self._whole(self._first()), cast == ".u64")
        elif word == "(":
            found = self._value(0)
            self._take(")")
        else:
            found = self._signed(word)
        self.depth -= 1
        return found

    def _is_cast(self) -> bool:
        here = [token for _, token in self.tokens[self.at : self.at + 2]]
        return len(here) == 2 and here[0] in (".s64", ".u64") and here[1] == ")"

    def _signed(self, sign: str) -> _Value:
        if sign not in ("+", "-", "~", "!"):
            raise ValueError(f"{self.text!r} is not a constant expression")
        one = self._first()
        if sign == "!":
            return _Value(int(not one.value))
        if sign == "~":
            return _integer(~self._whole(one), one.unsigned)
        if isinstance(one.value, float):
            return _Value(-one.value if sign == "-" else one.value)
        return _integer(-one.value if sign == "-" else one.value, one.unsigned)

    def _whole(self, one: _Value) -> int:
        if isinstance(one.value, float):
            raise ValueError(f"{self.text!r} uses a float as an integer")
        return one.value

    def _binary(self, sign: str, left: _Value, right: _Value) -> _Value:
        a, b = left.value, right.value
        if sign in ("&&", "||"):
            return _Value(int(bool(a and b) if sign == "&&" else bool(a or b)))
        if sign in _TESTS:
            return _Value(int(_TESTS[sign](a, b)))
        if sign in ("/", "%") and not b:
            raise ValueError(f"{self.text!r} divides by zero")
        if isinstance(a, float) or isinstance(b, float):
            if sign not in ("+", "-", "*", "/"):
                raise ValueError(f"{self.text!r} uses a float as an integer")
            x, y = float(a), float(b)
            return _Value(x / y if sign == "/" else {"+": x + y, "-": x - y, "*": x * y}[sign])
        unsigned = left.unsigned or (right.unsigned and sign not in ("<<", ">>"))
        if unsigned:
            a, b = a % _WORD, b % _WORD
        if sign in ("/", "%"):
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return _integer(quotient if sign == "/" else a - quotient * b, unsigned)
        return _integer(_INTEGERS[sign](a, b), unsigned)


def _literal(word: str) -> _Value:
    found = number(word)
    if found is None:
        raise ValueError(f"{word!r} is not a number")
    if found.float_bytes:
        form = {4: "<f", 8: "<d"}[found.float_bytes]
        value: float = struct.unpack(form, found.value.to_bytes(found.float_bytes, "little"))[0]
        return _Value(value)
    return _integer(found.value, word[-1] in "uU" or found.value >= _WORD // 2)


def _integer(value: int, unsigned: bool) -> _Value:
    """Cut to 64 bits."""
    low = value % _WORD
    return _Value(low if unsigned or low < _WORD // 2 else low - _WORD, unsigned)
