"""strided: how operands are read, and when the product is the transposed one."""

from __future__ import annotations

import pytest

from tilewright.dtypes import BF16, FP32
from tilewright.gemm.kernels.strided import Operand, operand, product, vector
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.request import Request


@pytest.mark.parametrize(
    ("matrix", "elements"),
    [
        (Matrix(BF16, 5, 64, 64, 1), 8),
        (Matrix(BF16, 5, 63, 64, 1), 8),  # the last piece of a row is cut
        (Matrix(BF16, 5, 63, 63, 1), 1),
        (Matrix(BF16, 5, 64, -64, 1), 8),
        (Matrix(BF16, 5, 64, 0, 1, alignment=4), 2),
        (Matrix(BF16, 5, 64, 68, 1), 4),
        (Matrix(BF16, 5, 64, 64, 1, batch_stride=322), 2),
        (Matrix(BF16, 5, 64, 128, 2), 1),
        (Matrix(FP32, 5, 64, 66, 1), 2),
    ],
)
def test_elements_at_once(matrix: Matrix, elements: int) -> None:
    assert vector(matrix) == elements


def test_an_operand_is_read_the_way_it_lies() -> None:
    along, across = Matrix(BF16, 40, 64, 64, 1), Matrix(BF16, 40, 64, 1, 40)
    assert operand(along) == Operand(True, 8)
    assert operand(across) == Operand(False, 8)
    assert operand(Matrix(BF16, 40, 64, 3, 200)) == Operand(False, 1)
    assert operand(Matrix(BF16, 40, 64, 200, -3)) == Operand(True, 1)


def test_a_gates_parts_begin_at_whole_vectors() -> None:
    across = Matrix(BF16, 48, 64, 1, 48)
    assert operand(across, 24) == Operand(False, 8)
    assert operand(across, 20) == Operand(False, 4)
    assert operand(across, 21) == Operand(False, 1)


def test_a_result_by_columns_is_the_transposed_product() -> None:
    a, b = Matrix(BF16, 4, 8, 8, 1), Matrix(BF16, 8, 6, 6, 1)
    by_columns = Request(a, b, Matrix(BF16, 4, 6, 1, 4))
    turned = product(by_columns, 1)
    assert (turned.names, turned.swapped) == (("b", "a"), True)
    assert (turned.a, turned.b) == (b.transposed, a.transposed)
    assert turned.out == Matrix(BF16, 6, 4, 4, 1)
    assert not product(by_columns, 2).swapped
    assert not product(Request(a, b, Matrix(BF16, 4, 6, 6, 1)), 1).swapped
    row = Request(Matrix(BF16, 1, 8, 8, 1), b, Matrix(BF16, 1, 6, 0, 1))
    assert not product(row, 1).swapped
