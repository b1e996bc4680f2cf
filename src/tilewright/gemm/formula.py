"""Formula: a user's expression of x, row and col: parsed here, never run as Python or as C++.

    formula  := or ["?" formula ":" formula]
    or       := and ("||" and)*
    and      := equal ("&&" equal)*
    equal    := order (("==" | "!=") order)*
    order    := sum (("<" | "<=" | ">" | ">=") sum)*
    sum      := product (("+" | "-") product)*
    product  := unary (("*" | "/") unary)*
    unary    := ("-" | "+" | "!") unary | NUMBER | x | row | col | INFINITY
              | FUNCTION "(" formula ("," formula)* ")" | "(" formula ")"

All of it is fp32, whole numbers, row and col as well: 1 / 2 is a half, and comparisons give 0 or 1.
(row and col are exact below 2²⁴.) From the tree come the three faces: the C++ type of
cuda/tile/epilogue_expression.cuh that spells it, its float64 meaning, and what fp32 makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import erf
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.gemm.interval import Interval, Wide

NAMES = {"x": "X", "row": "Row", "col": "Col"}
_MOST_LETTERS = 300
_MOST_DEPTH = 40
_erf: Any = np.frompyfunc(erf, 1, 1)

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?(?![\w.]))|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark><=|>=|==|!=|&&|\|\||[-+*/!<>?:(),]))",
    re.ASCII,
)


@dataclass(frozen=True)
class Function:
    """`ulps` is the largest error of the kernel's function in units in the last place (CUDA C++
    Programming Guide, "Mathematical Functions"; for rsqrtf that of rsqrt.approx). All rise or fall
    everywhere but for fabsf, which turns at 0.
    """

    cpp: str
    exact: Callable[..., Any]
    ulps: float = 0.0
    turns: tuple[float, ...] = ()
    takes: int = 1


FUNCTIONS: dict[str, Function] = {
    "fabsf": Function("Fabs", np.abs, turns=(0.0,)),
    "expf": Function("Exp", np.exp, 2),
    "exp2f": Function("Exp2", np.exp2, 2),
    "logf": Function("Log", np.log, 2),
    "log2f": Function("Log2", np.log2, 2),
    "sqrtf": Function("Sqrt", np.sqrt),
    "rsqrtf": Function("Rsqrt", lambda x: 1 / np.sqrt(x), 2),
    "tanhf": Function("TanhOf", np.tanh, 2),
    "erff": Function("Erf", lambda x: np.asarray(_erf(x), np.float64), 2),
    "floorf": Function("Floor", np.floor),
    "ceilf": Function("Ceil", np.ceil),
    "fminf": Function("Fmin", np.fmin, takes=2),
    "fmaxf": Function("Fmax", np.fmax, takes=2),
}


@dataclass(frozen=True)
class Node:
    """`kind` is "number", a name, an operator, "?" or a function's name; "neg" is unary minus."""

    kind: str
    children: tuple[Node, ...] = ()
    value: float = 0.0

    def cpp(self) -> str:
        """The type that spells it, without the namespace's name."""
        if self.kind == "number":
            return f"tile::Number<0x{np.float32(self.value).view(np.uint32):08x}u>"
        if self.kind in NAMES:
            return f"tile::{NAMES[self.kind]}"
        word = FUNCTIONS[self.kind].cpp if self.kind in FUNCTIONS else _OPERATORS[self.kind][0]
        return f"tile::{word}<{', '.join(child.cpp() for child in self.children)}>"

    def exact(self, names: Mapping[str, Wide]) -> Wide:
        """The float64 value, where `names` are x, row and col."""
        if self.kind == "number":
            return np.asarray(np.float32(self.value), np.float64)
        if self.kind in NAMES:
            return names[self.kind]
        values = [child.exact(names) for child in self.children]
        function = (
            FUNCTIONS[self.kind].exact if self.kind in FUNCTIONS else _OPERATORS[self.kind][1]
        )
        with np.errstate(all="ignore"):
            return np.asarray(function(*values), np.float64)

    def enclose(self, names: Mapping[str, Interval]) -> Interval:
        """All that fp32 arithmetic may give."""
        if self.kind == "number":
            return Interval.of(self.exact({}))
        if self.kind in NAMES:
            return names[self.kind]
        parts = [child.enclose(names) for child in self.children]
        if self.kind not in FUNCTIONS:
            return _OPERATORS[self.kind][2](*parts)
        function = FUNCTIONS[self.kind]
        if function.takes == 2:  # of fminf and fmaxf: each rises with either operand
            low, high = (p.low for p in parts), (p.high for p in parts)
            return Interval(function.exact(*low), function.exact(*high))
        return parts[0].image(function.exact, function.turns).ulps(function.ulps)


def _truth(sure: Any, never: Any) -> Interval:
    """A comparison's 0 or 1, from where it holds for all values and where for none."""
    return Interval(np.where(sure, 1.0, 0.0), np.where(never, 0.0, 1.0))


def _less(a: Interval, b: Interval) -> Interval:
    return _truth(a.high < b.low, ~(a.low < b.high))


def _at_most(a: Interval, b: Interval) -> Interval:
    return _truth(a.high <= b.low, ~(a.low <= b.high))


def _equal(a: Interval, b: Interval) -> Interval:
    known = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
    return _truth(known, ~((a.low <= b.high) & (b.low <= a.high)))


def _zero(a: Interval) -> Interval:
    return _equal(a, Interval.of(0.0))


def _and(a: Interval, b: Interval) -> Interval:
    a, b = _zero(a), _zero(b)  # 1 where it is false
    return Interval(1 - np.maximum(a.high, b.high), 1 - np.maximum(a.low, b.low))


def _or(a: Interval, b: Interval) -> Interval:
    a, b = _zero(a), _zero(b)
    return Interval(1 - np.minimum(a.high, b.high), 1 - np.minimum(a.low, b.low))


def _either(condition: Interval, a: Interval, b: Interval) -> Interval:
    false = _zero(condition)
    both = Interval.hull(a.low, a.high, b.low, b.high)
    sure, never = false.high == 0, false.low == 1
    return Interval(
        np.where(sure, a.low, np.where(never, b.low, both.low)),
        np.where(sure, a.high, np.where(never, b.high, both.high)),
    )


_Operator = tuple[str, Callable[..., Any], Callable[..., Interval]]
_OPERATORS: dict[str, _Operator] = {
    "+": ("Sum", np.add, Interval.__add__),
    "-": ("Difference", np.subtract, Interval.__sub__),
    "*": ("Product", np.multiply, Interval.__mul__),
    "/": ("Quotient", np.divide, Interval.__truediv__),
    "neg": ("Minus", np.negative, Interval.__neg__),
    "!": ("Not", lambda a: a == 0, _zero),
    "<": ("Less", np.less, _less),
    "<=": ("AtMost", np.less_equal, _at_most),
    "==": ("Equal", np.equal, _equal),
    "&&": ("And", lambda a, b: (a != 0) & (b != 0), _and),
    "||": ("Or", lambda a, b: (a != 0) | (b != 0), _or),
    "?": ("Either", lambda c, a, b: np.where(c != 0, a, b), _either),
}
_RANKS: tuple[tuple[str, ...], ...] = (  # loosest first
    ("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/"),
)  # fmt: skip


def parse(text: str) -> Node:
    """The tree of a formula. Raises InputError, which quotes it, for anything else."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self.shown = "".join(sign if sign.isprintable() else " " for sign in text).strip()
        self.at, self.depth = 0, 0
        if len(text) > _MOST_LETTERS:
            raise self.error(f"it has {len(text)} letters; {_MOST_LETTERS} are allowed")
        self.tokens = self._split(text)

    def _split(self, text: str) -> list[tuple[str, str]]:
        tokens, at, end = [], 0, len(text.rstrip(" "))
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None or "\n" in match[0] or "\r" in match[0]:
                raise self.error(f"{text[at:].strip()[:8]!r} means nothing here")
            kind = str(match.lastgroup)
            tokens.append((kind, match[kind]))
            at = match.end()
        return [*tokens, ("end", "")]

    def error(self, why: str) -> InputError:
        shown = self.shown if len(self.shown) <= 60 else f"{self.shown[:57]}…"
        return InputError(
            f'the expression "{shown}" is refused: {why}. It may hold x, row, col, INFINITY, '
            f"numbers, + - * / < <= > >= == != && || ! ?: ( ) and {', '.join(FUNCTIONS)}."
        )

    def take(self, *marks: str) -> str | None:
        kind, text = self.tokens[self.at]
        if kind != "mark" or text not in marks:
            return None
        self.at += 1
        return text

    def need(self, mark: str) -> None:
        if self.take(mark) is None:
            found = self.tokens[self.at][1]
            raise self.error(f"{mark!r} is expected " + (f"before {found!r}" if found else "last"))

    def whole(self) -> Node:
        tree = self.formula()
        if self.tokens[self.at][0] != "end":
            raise self.error(f"an operator is expected before {self.tokens[self.at][1]!r}")
        return tree

    def formula(self) -> Node:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise self.error(f"it nests deeper than {_MOST_DEPTH}")
        tree = self.binary(0)
        if self.take("?"):
            yes = self.formula()
            self.need(":")
            tree = Node("?", (tree, yes, self.formula()))
        self.depth -= 1
        return tree

    def binary(self, rank: int) -> Node:
        if rank == len(_RANKS):
            return self.unary()
        tree = self.binary(rank + 1)
        while mark := self.take(*_RANKS[rank]):
            right = self.binary(rank + 1)
            if mark in (">", ">="):
                tree = Node({">": "<", ">=": "<="}[mark], (right, tree))
            elif mark == "!=":
                tree = Node("!", (Node("==", (tree, right)),))
            else:
                tree = Node(mark, (tree, right))
        return tree

    def unary(self) -> Node:
        if mark := self.take("-", "+", "!"):
            self.depth += 1
            if self.depth > _MOST_DEPTH:
                raise self.error(f"it nests deeper than {_MOST_DEPTH}")
            value = self.unary()
            self.depth -= 1
            return value if mark == "+" else Node({"-": "neg", "!": "!"}[mark], (value,))
        if self.take("("):
            tree = self.formula()
            self.need(")")
            return tree
        return self.atom()

    def atom(self) -> Node:
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return self.number(text)
        if kind == "name" and text in NAMES:
            return Node(text)
        if text == "INFINITY":
            return Node("number", value=float("inf"))
        if kind == "name" and text in FUNCTIONS:
            return self.call(text)
        if kind == "name":
            raise self.error(f"{text!r} is not known")
        raise self.error(f"a value is expected before {text!r}" if text else "it ends too early")

    def number(self, text: str) -> Node:
        value = float(text.rstrip("fF"))
        with np.errstate(over="ignore"):
            if not np.isfinite(np.float32(value)):
                raise self.error(f"{text} is too large for fp32; INFINITY is a value")
        return Node("number", value=value)

    def call(self, name: str) -> Node:
        self.need("(")
        given = [self.formula()]
        while self.take(","):
            given.append(self.formula())
        self.need(")")
        if len(given) != FUNCTIONS[name].takes:
            raise self.error(f"{name} takes {FUNCTIONS[name].takes} values, not {len(given)}")
        return Node(name, tuple(given))
