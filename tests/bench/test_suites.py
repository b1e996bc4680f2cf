"""Shapes in words and in suites."""

from __future__ import annotations

import pytest

from tilewright.bench.suites import Shape, parse_shapes, suite, suites
from tilewright.dtypes import BF16
from tilewright.errors import InputError


def test_the_suites() -> None:
    assert list(suites()) == ["square", "llm", "decode", "odd"]
    assert suite("square")[0] == Shape(256, 256, 256, "nn")
    assert len(suite("all")) == sum(map(len, suites().values())) == 44
    with pytest.raises(InputError, match="suite='big' is not known; use square, llm, decode, odd"):
        suite("big")


def test_shapes_in_words() -> None:
    assert parse_shapes(["256x384x192", "512×6144×4096:nt"]) == (
        Shape(256, 384, 192),
        Shape(512, 6144, 4096, "nt"),
    )
    assert [shape.m for shape in parse_shapes(["1024:4096:1024x8x16"])] == [1024, 2048, 3072, 4096]
    assert len(parse_shapes(["1:2:1x3:5:2x7"])) == 4
    assert parse_shapes(["8x8x8", "8x8x8:nn"], "tt") == (Shape(8, 8, 8, "tt"), Shape(8, 8, 8, "nn"))
    assert [str(shape) for shape in parse_shapes(["1x2x3:tt"])] == ["1x2x3:tt"]


@pytest.mark.parametrize(
    "word",
    ["", "4096", "1x2", "1x2x3x4", "axbxc", "1x2x3:xy", "1:2x3x4", "4:2:1x3x4", "1:4:0x3x4",
     "1x2x3:", "-1x2x3", "1:2:3:4x5x6"],
)  # fmt: skip
def test_words_that_are_no_shape(word: str) -> None:
    with pytest.raises(InputError, match="shape="):
        parse_shapes([word])


@pytest.mark.parametrize(
    ("shape", "aligned"),
    [
        (Shape(1000, 1000, 1000), True),
        (Shape(4095, 4097, 4099), False),
        (Shape(4096, 4096, 4097, "nt"), False),  # rows of 4097 elements
        (Shape(129, 4096, 4096, "nt"), True),  # only the number of rows is odd
        (Shape(129, 4096, 4096, "tn"), False),
        (Shape(64, 4097, 64, "nt"), False),  # C's rows
    ],
)
def test_alignment_is_of_rows(shape: Shape, aligned: bool) -> None:
    assert shape.aligned is aligned


def test_a_problem_keeps_the_layout() -> None:
    problem = Shape(128, 256, 64, "tn").problem(BF16)
    assert (problem.m, problem.n, problem.k, problem.layout) == (128, 256, 64, "tn")
