"""The operands of a measurement. What they hold changes the power, and power the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import InputError
from tilewright.problem import Problem, whole

Array = npt.NDArray[Any]
_Draw = Callable[[np.random.Generator, tuple[int, int]], Array]

# The word on the command line → how records name it, and how it is drawn.
DISTRIBUTIONS: dict[str, tuple[str, _Draw]] = {
    "normal": ("normal(0, 1)", lambda random, shape: random.standard_normal(shape, np.float32)),
    "uniform": (
        "uniform(-1, 1)",
        lambda random, shape: random.random(shape, np.float32) * np.float32(2) - np.float32(1),
    ),
    "integers": (
        "integers(-4, 4)",
        lambda random, shape: random.integers(-4, 5, shape, np.int8).astype(np.float32),
    ),
    "zeros": ("zeros", lambda random, shape: np.zeros(shape, np.float32)),
}


def distribution(word: str) -> tuple[str, _Draw]:
    """Its name in records and how to draw it. Raises: InputError for an unknown word."""
    if word not in DISTRIBUTIONS:
        raise InputError(f"inputs={word!r} is not known; use {', '.join(DISTRIBUTIONS)}.")
    return DISTRIBUTIONS[word]


def operands(problem: Problem, inputs: str, seed: int) -> tuple[Array, Array]:
    """A and B as they lie in memory: [m, k] and [k, n], or transposed where the layout says t.

    Raises: InputError for an unknown distribution or a negative seed.
    Cost: about a second for 10⁸ elements.
    """
    if whole("seed", seed) < 0:
        raise InputError(f"seed={seed} must be 0 or more.")
    _, draw = distribution(inputs)
    random = np.random.default_rng(seed)
    m, n, k = problem.m, problem.n, problem.k
    a_shape = (k, m) if problem.layout[0] == "t" else (m, k)
    b_shape = (n, k) if problem.layout[1] == "t" else (k, n)
    dtype = problem.dtype.numpy()
    a = draw(random, a_shape).astype(dtype)
    b = draw(random, b_shape).astype(dtype)
    return a, b


def logical(problem: Problem, a: Array, b: Array) -> tuple[Array, Array]:
    """Views of stored operands as A[m, k] and B[k, n]."""
    flip_a, flip_b = (letter == "t" for letter in problem.layout)
    return (a.T if flip_a else a), (b.T if flip_b else b)
