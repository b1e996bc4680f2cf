"""Operands: what they hold and how they lie."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.bench.inputs import DISTRIBUTIONS, logical, operands
from tilewright.dtypes import BF16, FP16
from tilewright.errors import InputError
from tilewright.problem import Problem

pytest.importorskip("ml_dtypes", reason="bf16 arrays need ml_dtypes")


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("inputs", DISTRIBUTIONS)
def test_shapes_in_memory(layout: str, inputs: str) -> None:
    problem = Problem(48, 32, 16, BF16, layout)
    a, b = operands(problem, inputs, seed=3)
    assert a.shape == ((16, 48) if layout[0] == "t" else (48, 16))
    assert b.shape == ((32, 16) if layout[1] == "t" else (16, 32))
    left, right = logical(problem, a, b)
    assert (left.shape, right.shape) == ((48, 16), (16, 32))
    again, _ = operands(problem, inputs, seed=3)
    assert (a == again).all()


def test_what_they_hold() -> None:
    problem = Problem(512, 256, 128, FP16)
    drawn = {word: operands(problem, word, 1)[0].astype("f8") for word in DISTRIBUTIONS}
    assert abs(drawn["normal"].std() - 1) < 0.02
    assert abs(drawn["uniform"].std() - 1 / np.sqrt(3)) < 0.02
    assert -1 <= drawn["uniform"].min() < -0.99 < 0.99 < drawn["uniform"].max() <= 1
    assert set(np.unique(drawn["integers"])) == set(range(-4, 5))
    assert not drawn["zeros"].any()


def test_unknown_words() -> None:
    with pytest.raises(InputError, match="inputs='ones' is not known; use normal, uniform"):
        operands(Problem(8, 16, 32, BF16), "ones", 0)
    with pytest.raises(InputError, match="seed=-1 must be 0 or more"):
        operands(Problem(8, 16, 32, BF16), "normal", -1)
