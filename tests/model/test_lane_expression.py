"""The grammar of lane expressions: C's meaning, and nothing else."""

from __future__ import annotations

import random

import pytest

from tilewright.errors import InputError
from tilewright.model.lane_expression import parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("lane / 4 * 64 + lane % 4 * 4", 452),
        ("1 << 2 + 1", 8),  # + binds tighter than <<
        ("6 & 3 == 3", 0),  # and == tighter than &, as in C
        ("(6 & 3) == 2", 1),
        ("1 | 2 ^ 3 & 2", 1),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7 / -2", -3),
        ("~0 & 0xff", 255),
        ("!lane + !0", 1),
        ("- -3", 3),
        ("lane < 30", 1),
        ("lane >= 30", 0),
        ("lane != 29", 0),
        ("0X1Fu", 31),
        ("10 - 3 - 2", 5),
        ("row ^ lane", 24),
    ],
)
def test_it_means_what_c_means(text: str, value: int) -> None:
    assert parse(text, ("lane", "row"))({"lane": 29, "row": 5}) == value


def test_random_expressions_mean_what_python_makes_of_them() -> None:
    """Non-negative operands, where both languages agree on / and %; fully parenthesised."""
    draw = random.Random(7)

    def tree(depth: int) -> tuple[str, int]:
        if depth == 0 or draw.random() < 0.2:
            number = draw.randrange(64)
            return (str(number), number) if draw.random() < 0.6 else ("lane", 13)
        (left, a), (right, b) = tree(depth - 1), tree(depth - 1)
        mark = draw.choice("+*&|^/%")
        if mark in "/%" and not b:
            mark = "+"
        value = {"+": a + b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}.get(mark)
        if value is None:
            value = a // b if mark == "/" else a % b
        if value >= 1 << 40:
            return left, a
        return f"({left} {mark} {right})", value

    for _ in range(300):
        text, value = tree(4)
        if len(text) <= 300:
            assert parse(text, ("lane",))({"lane": 13}) == value, text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a value is expected at the end"),
        ("1 +", "a value is expected at the end"),
        ("1 2", "an operator is expected before '2'"),
        ("(1", "a ) is missing"),
        ("warp", "'warp' is not known"),
        ("1.5", "'.5' means nothing here"),
        ("lane ** 2", "a value is expected before '*'"),
        ("2lane", "'2lane' means nothing here"),
        ("lane ? 1 : 2", "'? 1 : 2' means nothing here"),
        ("(" * 50, "it is nested deeper than 40"),
        ("1" + "+1" * 60, "more than 40 operations in a row"),
        ("1" * 16, "means nothing here"),
        ("lane + 010", "a number that begins with 0 is octal in C"),
    ],
)
def test_what_is_outside_the_grammar_is_refused(text: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, ("lane",), "index")
    assert str(caught.value).startswith('index "')
    assert why in str(caught.value)
    assert "It may hold lane, whole numbers, ( ) and the operators * /" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 / lane", "it divides by zero"),
        ("1 % lane", "it divides by zero"),
        ("1 << 48", "it shifts by 48"),
        ("1 >> -1", "it shifts by -1"),
        ("999999999 * 999999999", "a value leaves 48 bits"),
    ],
)
def test_values_that_do_not_exist_are_refused(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        parse(text, ("lane",))({"lane": 0})


def test_a_long_text_is_refused_before_it_is_read() -> None:
    with pytest.raises(InputError, match="swizzle has 1000 letters; 300 are allowed"):
        parse("1" * 1000, (), "swizzle")
