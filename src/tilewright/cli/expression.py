"""`--check "c ~ a @ b"`: a small language of arrays, parsed here, its shapes checked by sentences.

    check   := NAME[.T] ("~" | "==") sum
    sum     := product (("+" | "-") product)*
    product := unary (("*" | "/" | "@") unary)*
    unary   := "-" unary | atom ".T"*
    atom    := number | NAME | "(" sum ")" | abs(sum) | exp(sum) | max(sum, sum)
             | sum(sum[, axis])

Shapes follow NumPy: elementwise operations broadcast, `@` takes vectors and matrices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from tilewright.errors import InputError

Shape = tuple[int, ...]

FUNCTIONS = {"abs": 1, "exp": 1, "max": 2, "sum": 1}  # and how many arrays they take
LANGUAGE = "names, numbers, + - * / @ .T ( ), abs(x), exp(x), max(x, y), sum(x) and sum(x, axis)"
_MOST_LETTERS = 2000
_MOST_DEPTH = 60
_MOST_ELEMENTS = 1 << 28  # of an intermediate result: 2 GiB in float64

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark>==|[-+*/@~().,−×]))",
    re.ASCII,
)
_SAME = {"−": "-", "×": "*"}  # as text and papers write them


@dataclass(frozen=True)
class Node:
    """`kind` is number, name, an operator (neg for the unary minus, T) or a function's name.

    `text` is the part of the check that it stands for, `depth` the height of its tree.
    """

    kind: str
    text: str
    children: tuple[Node, ...] = ()
    value: float = 0.0
    axis: int | None = None

    @property
    def name(self) -> str:
        return self.text if self.kind == "name" else ""


@dataclass(frozen=True)
class Check:
    """`label` names the array on the left, read transposed if `transposed`."""

    text: str
    label: str
    transposed: bool
    exact: bool  # == and not ~
    right: Node

    @property
    def names(self) -> set[str]:
        """The arguments that the right side reads."""
        return set(names_of(self.right))


def parse_check(text: str) -> Check:
    """Raises: InputError with the place that is wrong."""
    return _Parser(text).check()


def shape_of(node: Node, shapes: Mapping[str, Shape]) -> Shape:
    """The shape of a node's result. Raises: InputError for operands that don't fit."""
    inner = [shape_of(child, shapes) for child in node.children]
    if node.kind == "number":
        return ()
    if node.kind == "name":
        return shapes[node.name]
    if node.kind == "@":
        shape = _product_shape(node, *inner)
    elif node.kind == "T":
        shape = inner[0][::-1]
    elif node.kind == "sum":
        shape = _sum_shape(node, inner[0])
    else:
        shape = _broadcast(node, inner)
    if prod(shape) > _MOST_ELEMENTS:
        raise InputError(f"{node.text}: {show(shape)} is too large to check.")
    return shape


def show(shape: Shape) -> str:
    return "x".join(str(extent) for extent in shape) or "a number"


def names_of(node: Node) -> list[str]:
    own = [node.name] if node.kind == "name" else []
    return own + [name for child in node.children for name in names_of(child)]


def _product_shape(node: Node, left: Shape, right: Shape) -> Shape:
    if not (1 <= len(left) <= 2 and 1 <= len(right) <= 2):
        raise InputError(
            f"{node.text}: {show(left)} times {show(right)}; @ takes vectors and matrices."
        )
    if left[-1] != right[0]:
        raise InputError(f"{node.text}: {show(left)} times {show(right)} do not fit.")
    return left[:-1] + right[1:]


def _sum_shape(node: Node, shape: Shape) -> Shape:
    if node.axis is None:
        return ()
    if not -len(shape) <= node.axis < len(shape):
        raise InputError(f"{node.text}: {show(shape)} has no axis {node.axis}.")
    axis = node.axis % len(shape)
    return shape[:axis] + shape[axis + 1 :]


def _broadcast(node: Node, shapes: list[Shape]) -> Shape:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        words = " and ".join(show(shape) for shape in shapes)
        said = f"{node.text}: {words} do not fit"
        for one, other in ((0, 1), (1, 0)):
            if len(shapes[one]) == 2 and shapes[other] == shapes[one][:1]:
                texts = [child.text for child in node.children]
                texts[one] = turned(node.children[one])
                raise RowsError(f"{said}, as axes meet from the last on.", node, texts) from None
        raise InputError(f"{said}.") from None


class RowsError(InputError):
    """A vector of a number a row beside a matrix: it fits the columns of the transposed one.

    `node` is where they meet, `turned` its text with the matrix transposed.
    """

    def __init__(self, message: str, node: Node, operands: list[str]) -> None:
        super().__init__(message)
        self.node = node
        self.turned = (
            f"max({', '.join(operands)})" if node.kind == "max" else f" {node.kind} ".join(operands)
        )


def turned(node: Node) -> str:
    """The text of a node's transposed, with .T at the names: exp(x.T) for exp(x)."""
    inner = [turned(child) for child in node.children]
    if node.kind in ("number", "name"):
        return node.text + ".T" * (node.kind == "name")
    if node.kind in ("abs", "exp", "max"):
        return f"{node.kind}({', '.join(inner)})"
    if node.kind == "neg":
        return f"-{inner[0]}"
    return f"({node.text}).T"


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


class _Parser:
    def __init__(self, text: str) -> None:
        self.shown = "".join(letter if letter.isprintable() else " " for letter in text).strip()
        if len(text) > _MOST_LETTERS:
            raise InputError(f"--check has {len(text)} letters; {_MOST_LETTERS} are allowed.")
        self.text, self.at, self.depth = text, 0, 0
        self.tokens = self._split()

    def _split(self) -> list[_Token]:
        tokens, at, end = [], 0, len(self.text.rstrip())
        while at < end:
            match = _TOKEN.match(self.text, at)
            if match is None:
                letter = self.text[at:].strip()[:1]
                raise self._error(f"{letter!r} means nothing here{self._hint(letter, at)}")
            kind = str(match.lastgroup)
            tokens.append(
                _Token(kind, _SAME.get(match[kind], match[kind]), match.start(kind), match.end())
            )
            at = match.end()
        return [*tokens, _Token("end", "", end, end)]

    def _hint(self, letter: str, at: int) -> str:
        before = self.text[:at]
        if letter == "=" and before.count("(") > before.count(")"):
            return "; an axis is written sum(x, 1), and axes of 1 are not kept"
        if letter == "=":
            return " (write == for exact, ~ for close)"
        return f"; a check knows {LANGUAGE}"

    def _error(self, what: str) -> InputError:
        shown = self.shown if len(self.shown) <= 80 else f"{self.shown[:77]}…"
        return InputError(f'--check "{shown}": {what}.')

    @property
    def next(self) -> _Token:
        return self.tokens[self.at]

    def take(self, *marks: str) -> str | None:
        """The next token if it is one of the marks."""
        if self.next.kind != "mark" or self.next.text not in marks:
            return None
        self.at += 1
        return self.tokens[self.at - 1].text

    def need(self, mark: str) -> None:
        if self.take(mark) is None:
            raise self._error(f"{mark!r} is expected {self._place()}")

    def _place(self) -> str:
        return "at the end" if self.next.kind == "end" else f"before {self.next.text!r}"

    def check(self) -> Check:
        left = self.sum()
        relation = self.take("~", "==")
        if relation is None:
            raise self._error(f"~ (close) or == (exact) is expected {self._place()}")
        right = self.sum()
        if self.next.kind != "end":
            raise self._error(f"the end is expected {self._place()}")
        transposed = left.kind == "T"
        name = left.children[0] if transposed else left
        if name.kind != "name":
            raise self._error(
                f"the left side must be the name of an argument that the kernel writes, or "
                f"NAME.T, not {left.text!r}"
            )
        return Check(self.shown, name.name, transposed, relation == "==", right)

    def _node(self, kind: str, start: int, *children: Node, **other: float | None) -> Node:
        text = " ".join(self.text[start : self.tokens[self.at - 1].end].split())
        axis = other.get("axis")
        node = Node(
            kind, text, children, other.get("value") or 0.0, None if axis is None else int(axis)
        )
        if _depth(node) > _MOST_DEPTH:
            raise self._error(f"it is nested deeper than {_MOST_DEPTH}")
        return node

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise self._error(f"it is nested deeper than {_MOST_DEPTH}")
        start, node = self.next.start, self.product()
        while mark := self.take("+", "-"):
            node = self._node(mark, start, node, self.product())
        self.depth -= 1
        return node

    def product(self) -> Node:
        start, node = self.next.start, self.unary()
        while mark := self.take("*", "/", "@"):
            node = self._node(mark, start, node, self.unary())
        return node

    def unary(self) -> Node:
        start, minuses = self.next.start, 0
        while self.take("-"):
            minuses += 1
        node = self.postfix()
        for _ in range(minuses % 2):
            node = self._node("neg", start, node)
        return node

    def postfix(self) -> Node:
        start, node = self.next.start, self.atom()
        while self.take("."):
            if self.next.text != "T":
                raise self._error(
                    f"only .T may follow a dot, not .{self.next.text}; a check knows {LANGUAGE}"
                )
            self.at += 1
            node = self._node("T", start, node)
        return node

    def atom(self) -> Node:
        token = self.next
        if token.kind == "number":
            self.at += 1
            return self._node("number", token.start, value=self._number(token.text))
        if token.kind == "name":
            self.at += 1
            return self._call(token) if self.take("(") else self._node("name", token.start)
        if self.take("("):
            node = self.sum()
            self.need(")")
            return node
        raise self._error(f"a name, a number or ( is expected {self._place()}")

    def _number(self, text: str) -> float:
        value = float(text)
        if value == float("inf"):
            raise self._error(f"{text} is beyond the largest double")
        return value

    def _call(self, token: _Token) -> Node:
        name = token.text
        if name not in FUNCTIONS:
            raise self._error(f"{name} is not a function; a check knows {LANGUAGE}")
        arguments = [self.sum()]
        axis = None
        while self.take(","):
            if name == "sum" and axis is None:
                axis = self._axis()
            else:
                arguments.append(self.sum())
        self.need(")")
        if len(arguments) != FUNCTIONS[name]:
            way = "sum(x) or sum(x, axis)" if name == "sum" else f"{FUNCTIONS[name]}"
            raise self._error(f"{name} takes {way}, not {len(arguments)} arrays")
        return self._node(name, token.start, *arguments, axis=axis)

    def _axis(self) -> int:
        sign = -1 if self.take("-") else 1
        token = self.next
        if token.kind != "number" or not re.fullmatch(r"\d{1,2}", token.text, re.ASCII):
            raise self._error("the axis of sum is a whole number, as in sum(a, 1)")
        self.at += 1
        return sign * int(token.text)


def _depth(node: Node) -> int:
    return 1 + max((_depth(child) for child in node.children), default=0)
