"""A user's formula: what it means, what fp32 makes of it, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import InputError
from tilewright.gemm.formula import FUNCTIONS, parse
from tilewright.gemm.interval import Interval


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x * 0.5f + 1", 2.5),
        ("1 / 2", 0.5),  # all is fp32
        ("2 - 3 - 4", -5),
        ("2 * 3 + 4 * 5", 26),
        ("8 / 4 / 2", 1),
        ("-x * -x", 9),
        ("!x + !0", 1),
        ("x > 2 ? 1 : x > 1 ? 2 : 3", 1),
        ("x < 2 ? 1 : x < 3 ? 2 : 3", 3),
        ("x >= 3 && x <= 3", 1),
        ("x != 3 || x == 4", 0),
        ("1 < 2 == 1", 1),
        ("row + 10 * col", 75),
        ("fminf(x, 2) + fmaxf(x, 7) - fabsf(-x)", 6),
        ("col > row ? -INFINITY : x", -np.inf),
        ("sqrtf(4) + exp2f(3) + log2f(8) + floorf(1.5) + ceilf(1.5) + rsqrtf(4)", 16.5),
        ("(((x)))", 3),
        (".5 + 1. + 1e1 + 1e-1f", 11.6),
    ],
)
def test_meaning(text: str, value: float) -> None:
    names = {"x": np.array(3.0), "row": np.array(5.0), "col": np.array(7.0)}
    assert parse(text).exact(names) == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "ends too early"),
        ("x +", "ends too early"),
        ("x; y", "';"),
        ("x } { x", "'}"),
        ("x \\\n + 1", "means nothing"),
        ("x\n+ 1", "means nothing"),
        ("#include <a>", "'#include'"),
        ("x + 1 // x", "a value is expected before '/'"),
        ("x /* x */", "a value is expected"),
        ("x = 3", "'= 3'"),
        ("x++", "ends too early"),
        ("x, x", "expected before ','"),
        ("asm(x)", "'asm' is not known"),
        ("__trap()", "'__trap' is not known"),
        ("printf(x)", "'printf' is not known"),
        ("x(1)", "expected before '('"),
        ("tile::X", "'tile' is not known"),
        ("x[0]", "'[0]'"),
        ("expf(x, x)", "expf takes 1 values, not 2"),
        ("fminf(x)", "fminf takes 2 values, not 1"),
        ("expf", "'(' is expected last"),
        ("(x", "')' is expected last"),
        ("x ? 1", "':' is expected last"),
        ("1e99", "too large for fp32"),
        ("0x10", "means nothing"),
        ("1.2.3", "means nothing"),
        ("(" * 60 + "x" + ")" * 60, "nests deeper"),
        ("-" * 60 + "x", "nests deeper"),
        ("x" + "+x" * 200, "letters"),
        ("ｘ + 1", "means nothing"),
    ],
)
def test_anything_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(InputError, match="is refused") as caught:
        parse(text)
    assert why in str(caught.value)


def test_no_text_of_a_user_reaches_the_compiler() -> None:
    assert parse("x > 0 ? x : .5 * expf(row)").cpp() == (
        "tile::Either<tile::Less<tile::Number<0x00000000u>, tile::X>, tile::X, "
        "tile::Product<tile::Number<0x3f000000u>, tile::Exp<tile::Row>>>"
    )


def random_text(random: np.random.Generator, depth: int) -> str:
    if depth == 0:
        return str(random.choice(["x", "row", "col", "0.3", "2", "1e3"]))
    kind = random.integers(4)
    parts = [random_text(random, depth - 1) for _ in range(3)]
    if kind == 0:
        name = str(random.choice(list(FUNCTIONS)))
        return f"{name}({', '.join(parts[: FUNCTIONS[name].takes])})"
    if kind == 1:
        return f"({parts[0]} ? {parts[1]} : {parts[2]})"
    marks = ["+", "-", "*", "/"] if kind == 2 else ["<", "<=", "==", "!=", "&&", "||"]
    return f"({parts[0]} {random.choice(marks)} {parts[1]})"


def test_intervals_hold_the_exact_value_of_every_point() -> None:
    """From x between two numbers comes an interval that has what each x in between gives."""
    random = np.random.default_rng(5)
    known = 0
    for _ in range(150):
        tree = parse(random_text(random, 3))
        x = np.sort(random.standard_normal((2, 40)) * random.choice([0.1, 1, 30]), axis=0)
        row, col = np.array(3.0), np.array(8.0)
        given = {"x": Interval(x[0], x[1]), "row": Interval.of(row), "col": Interval.of(col)}
        with np.errstate(all="ignore"):
            made = tree.enclose(given)
            for share in (0.0, 0.3, 1.0):
                between = np.clip(x[0] + share * (x[1] - x[0]), *x)
                exact = tree.exact({"x": between, "row": row, "col": col})
                fits = (made.low <= exact) & (exact <= made.high)
                unsure = np.isneginf(made.low) & np.isposinf(made.high)
                both = np.isnan(exact) & np.isnan(made.low)
                assert (fits | unsure | both).all(), tree
                known += int(fits.any() and not unsure.any())
    assert known > 100
