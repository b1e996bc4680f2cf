"""The shape rules of matmul are numpy.matmul's, and what broadcasts to the result broadcasts."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tilewright.dtypes import FP32
from tilewright.errors import InputError
from tilewright.gemm.form import Form, packed
from tilewright.gemm.shapes import (
    Strides,
    check_extents,
    factor_strides,
    product_shapes,
    result_strides,
)

FIT = [
    ((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)),
    ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)), ((6, 5, 2, 3), (6, 1, 3, 4)), ((7, 1, 5, 2, 3), (6, 1, 3, 4)),
    ((5, 2, 3), (3,)), ((3,), (5, 3, 4)), ((1, 1), (1, 1)), ((1,), (1, 1)),
    ((0, 3), (3, 4)), ((2, 0), (0, 4)), ((2, 3), (3, 0)), ((0,), (0,)), ((0, 2, 3), (3, 4)),
    ((0, 2, 3), (1, 3, 4)), ((1, 2, 3), (0, 3, 4)), ((5, 0, 3), (3, 0)), ((0, 0), (0, 0)),
    ((2, 1), (1, 4)), ((1, 1, 1, 2, 3), (3, 4)),
]  # fmt: skip
MISFIT = [
    ((2, 3), (4, 5)), ((3,), (4,)), ((3,), (4, 3)), ((2, 3), (2,)), ((2, 3), ()), ((), (3,)),
    ((), ()), ((5, 2, 3), (4, 3, 4)), ((0, 2, 3), (5, 3, 4)), ((2, 3), (3, 3, 2, 4)),
    ((2, 0), (3, 4)), ((7, 5, 2, 3), (7, 6, 3, 4)),
]  # fmt: skip


def form(name: str, shape: tuple[int, ...]) -> Form:
    return packed(name, FP32, shape)


@pytest.mark.parametrize(("a", "b"), FIT)
def test_results_have_numpys_shape(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    shapes = product_shapes(form("a", a), form("b", b))
    assert shapes.result() == np.matmul(np.ones(a), np.ones(b)).shape


@pytest.mark.parametrize(("a", "b"), MISFIT)
def test_what_numpy_refuses_is_refused(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"."):
        np.matmul(np.ones(a), np.ones(b))
    with pytest.raises(InputError):
        product_shapes(form("a", a), form("b", b))


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ((2, 4), (5, 3), "b has 5 rows and a has 4 columns"),
        ((4,), (5, 3), "b has 5 rows and a has 4 elements"),
        ((2, 4), (5,), "b has 5 elements and a has 4 columns"),
        ((), (5,), "a has no dimensions"),
        ((2, 3, 4), (5, 4, 3), "a is a batch of (2,) matrices and b of (5,)"),
        ((2**31, 1), (1, 2), "m=2147483648 is above 2147483647"),
    ],
)
def test_messages_name_the_argument(a: tuple[int, ...], b: tuple[int, ...], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        check_extents(product_shapes(form("a", a), form("b", b)))


def test_a_vector_is_a_row_on_the_left_and_a_column_on_the_right() -> None:
    a, b = Form("x", FP32, (3,), (5,)), Form("y", FP32, (3,), (7,))
    shapes = product_shapes(a, b)
    assert factor_strides(a, shapes, left=True) == Strides((), 0, 5)
    assert factor_strides(b, shapes, left=False) == Strides((), 7, 0)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((4,), Strides((0,), 0, 1)),
        ((1, 4), Strides((0,), 0, 1)),
        ((3, 1), Strides((0,), 1, 0)),
        ((3, 4), Strides((0,), 4, 1)),
        ((5, 1, 4), Strides((4,), 0, 1)),
        ((5, 3, 4), Strides((12,), 4, 1)),
        ((), Strides((0,), 0, 0)),
        ((1,), Strides((0,), 0, 0)),
    ],
)
def test_a_bias_broadcasts_by_numpys_rules(shape: tuple[int, ...], strides: Strides) -> None:
    """Also where m = n, a vector is along N (faults EPI-05, EPI-06 and EPI-07)."""
    shapes = product_shapes(form("a", (5, 3, 2)), form("b", (2, 4)))
    assert result_strides(form("bias", shape), shapes) == strides
    square = product_shapes(form("a", (4, 2)), form("b", (2, 4)))
    assert result_strides(form("bias", (4,)), square) == Strides((), 0, 1)
    assert result_strides(form("bias", (4, 1)), square) == Strides((), 1, 0)


@pytest.mark.parametrize("shape", [(3,), (5,), (2, 4), (3, 4, 1), (6, 5, 3, 4), (5, 5, 3, 4)])
def test_a_bias_that_does_not_broadcast_is_refused(shape: tuple[int, ...]) -> None:
    shapes = product_shapes(form("a", (5, 3, 2)), form("b", (2, 4)))
    with pytest.raises(InputError, match=r"bias has the shape .* \(5, 3, 4\), the shape of the pr"):
        result_strides(form("bias", shape), shapes)


def test_operands_of_a_squeezed_result() -> None:
    shapes = product_shapes(form("a", (3, 2)), form("b", (2,)))
    assert result_strides(form("bias", (3,)), shapes) == Strides((), 1, 0)
    shapes = product_shapes(form("a", (2,)), form("b", (2, 4)))
    assert result_strides(form("bias", (4,)), shapes) == Strides((), 0, 1)


def test_a_gate_needs_pairs_of_columns() -> None:
    shapes = product_shapes(form("a", (3, 2)), form("b", (2, 6)))
    assert shapes.result(2) == (3, 3)
    with pytest.raises(InputError, match="b has 5 columns, and a gate takes pairs"):
        product_shapes(form("a", (3, 2)), form("b", (2, 5))).result(2)
    with pytest.raises(InputError, match="b has 1 column, and a gate takes pairs"):
        product_shapes(form("a", (3, 2)), form("b", (2,))).result(2)
