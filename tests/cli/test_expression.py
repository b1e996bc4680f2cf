"""The language of checks: what parses to what, and the sentences for the rest."""

from __future__ import annotations

import random

import pytest

from tilewright.cli.expression import Node, parse_check, shape_of
from tilewright.errors import InputError

SHAPES = {"a": (256, 128), "b": (64, 384), "w": (128, 64), "x": (128,), "s": (), "t": (2, 3, 4)}


def tree(node: Node) -> str:
    """As LISP would write it."""
    if node.kind == "number":
        return f"{node.value:g}"
    axis = "" if node.axis is None else f" axis={node.axis}"
    return node.name or f"({node.kind} {' '.join(tree(child) for child in node.children)}{axis})"


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("a", "a"),
        ("a + b - a", "(- (+ a b) a)"),
        ("a − 2 × b", "(- a (* 2 b))"),
        ("a / b / a", "(/ (/ a b) a)"),
        ("a @ b + s", "(+ (@ a b) s)"),
        ("2 * a @ b", "(@ (* 2 a) b)"),
        ("-a * b", "(* (neg a) b)"),
        ("--a", "a"),
        ("---a", "(neg a)"),
        ("a - -b", "(- a (neg b))"),
        ("-a.T", "(neg (T a))"),
        ("(a + b).T.T", "(T (T (+ a b)))"),
        ("max(abs(a), 0)", "(max (abs a) 0)"),
        ("sum(a)", "(sum a)"),
        ("sum(a @ b, -1)", "(sum (@ a b) axis=-1)"),
        ("exp(-1.5e-3 * T)", "(exp (* (neg 0.0015) T))"),
        (".5 + 2", "(+ 0.5 2)"),
        ("max * sum", "(* max sum)"),
    ],
)
def test_trees(text: str, parsed: str) -> None:
    check = parse_check(f"c ~ {text}")
    assert tree(check.right) == parsed
    assert (check.label, check.transposed, check.exact) == ("c", False, False)


def test_the_left_side() -> None:
    check = parse_check(" out.T==a @ b.T ")
    assert (check.label, check.transposed, check.exact) == ("out", True, True)
    assert check.names == {"a", "b"}
    assert check.text == "out.T==a @ b.T"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is expected at the end"),
        ("c", "~ (close) or == (exact) is expected at the end"),
        ("c ~", "a name, a number or ( is expected at the end"),
        ("c = a", "'=' means nothing here (write == for exact, ~ for close)"),
        ("c ~ a b", "the end is expected before 'b'"),
        ("c ~ a ~ b", "the end is expected before '~'"),
        ("c ~ (a", "')' is expected at the end"),
        ("c ~ a)", "the end is expected before ')'"),
        ("c ~ a +", "is expected at the end"),
        ("c ~ * a", "is expected before '*'"),
        ("c ~ a ** 2", "is expected before '*'"),
        ("c ~ a[0]", "'[' means nothing here"),
        ("c ~ a.shape", "only .T may follow a dot, not .shape"),
        ("c ~ a.__class__", "only .T may follow a dot"),
        ("c ~ __import__('os')", '"\'" means nothing here'),
        ("c ~ open(a)", "open is not a function; a check knows names, numbers, "),
        ("c ~ max(a)", "max takes 2, not 1 arrays"),
        ("c ~ abs(a, b)", "abs takes 1, not 2 arrays"),
        ("c ~ abs()", "is expected before ')'"),
        ("c ~ sum(a, b)", "the axis of sum is a whole number"),
        ("c ~ sum(a, 1.5)", "the axis of sum is a whole number"),
        ("c ~ sum(a, 0, 1)", "sum takes sum(x) or sum(x, axis)"),
        ("c + d ~ a", "the left side must be the name of an argument that the kernel writes"),
        ("5 ~ a", "not '5'"),
        ("c ~ 1e999", "beyond the largest double"),
        ("c ~ a; b", "';' means nothing here"),
        ("c ~ é", "means nothing here"),
        ("c ~ \x1b[31m", "means nothing here"),
        ("c ~ " + "(" * 500 + "a" + ")" * 500, "nested deeper than 60"),
        ("c ~ " + "-" * 1500 + "a)", "the end is expected"),
        ("c ~ " + "+".join(["a"] * 500), "nested deeper than 60"),
        ("c ~ a" + ".T" * 500, "nested deeper than 60"),
        ("c ~ " + "abs(" * 300, "nested deeper than 60"),
        ("c" * 3000, "2000 are allowed"),
    ],
)
def test_sentences(text: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_check(text)
    message = str(raised.value)
    assert said in message
    assert "\n" not in message
    assert "\x1b" not in message.replace("'\\x1b'", "")
    assert len(message) < 300


def test_noise_is_a_sentence_or_a_check() -> None:
    letters = "abc~=+-*/@().,T 0123e\t\n·'\"%"
    drawn = random.Random(0)
    for _ in range(5000):
        text = "".join(drawn.choice(letters) for _ in range(drawn.randint(0, 24)))
        try:
            parse_check(text)
        except InputError:
            continue


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("a @ w @ b", (256, 384)),
        ("a.T", (128, 256)),
        ("t.T", (4, 3, 2)),
        ("a + x", (256, 128)),
        ("a * s - 1", (256, 128)),
        ("a @ x", (256,)),
        ("x @ w", (64,)),
        ("x @ x", ()),
        ("sum(a)", ()),
        ("sum(a, 0)", (128,)),
        ("sum(t, -2)", (2, 4)),
        ("max(x, a)", (256, 128)),
        ("-exp(abs(2))", ()),
    ],
)
def test_shapes(text: str, shape: tuple[int, ...]) -> None:
    assert shape_of(parse_check(f"c ~ {text}").right, SHAPES) == shape


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2 + (a @ b)", "a @ b: 256x128 times 64x384 do not fit."),
        ("a + w", "a + w: 256x128 and 128x64 do not fit."),
        ("max(a,w)", "max(a,w): 256x128 and 128x64 do not fit."),
        ("a @ 2", "a @ 2: 256x128 times a number; @ takes vectors and matrices."),
        ("t @ a", "@ takes vectors and matrices."),
        ("sum(a, 2)", "sum(a, 2): 256x128 has no axis 2."),
        ("sum(s, 0)", "sum(s, 0): a number has no axis 0."),
    ],
)
def test_shapes_that_do_not_fit(text: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        shape_of(parse_check(f"c ~ {text}").right, SHAPES)
    assert said in str(raised.value)


def test_a_result_that_would_fill_the_memory_is_refused() -> None:
    check = parse_check("c ~ sum(a + b)")
    with pytest.raises(InputError, match=r"a \+ b: 1000000x1000000 is too large"):
        shape_of(check.right, {"a": (1_000_000, 1), "b": (1_000_000,)})
