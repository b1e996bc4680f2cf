"""However dimensions are merged, folded or left to launches, every element finds its operands."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tilewright.dtypes import BF16, FP32
from tilewright.gemm.collapse import Collapsed, collapse, matrix, overlaps_itself
from tilewright.gemm.form import Form, packed
from tilewright.gemm.shapes import Strides, factor_strides, product_shapes, result_strides

Operands = dict[str, tuple[Form, Strides]]


def operands(a: Form, b: Form, out: Form) -> tuple[tuple[int, ...], int, Operands]:
    shapes = product_shapes(a, b)
    found = {
        "a": (a, factor_strides(a, shapes, left=True)),
        "b": (b, factor_strides(b, shapes, left=False)),
        "out": (out, result_strides(out, shapes)),
    }
    return shapes.batch, shapes.m, found


def rows_met(made: Collapsed) -> set[tuple[int, ...]]:
    """For each row of the result the bytes at which it, its row of a, and its b begin."""
    found = set()
    for offsets in made.offsets:
        for batch, row in product(range(made.batch), range(made.m)):
            found.add(
                tuple(
                    offsets[name]
                    + 4 * (batch * strides.batch[0] + (row * strides.row if name != "b" else 0))
                    for name, strides in made.strides.items()
                )
            )
    return found


def rows_meant(batch: tuple[int, ...], m: int, found: Operands) -> set[tuple[int, ...]]:
    return {
        tuple(
            4
            * (
                sum(i * stride for i, stride in zip(place, strides.batch, strict=True))
                + (row * strides.row if name != "b" else 0)
            )
            for name, (_, strides) in found.items()
        )
        for place in product(*(range(extent) for extent in batch))
        for row in range(m)
    }


@pytest.mark.parametrize("seed", range(60))
def test_every_row_meets_its_operands(seed: int) -> None:
    random = np.random.default_rng(seed)
    rank = int(random.integers(0, 4))
    batch = tuple(int(extent) for extent in random.integers(1, 4, rank))
    m, n, k = (int(extent) for extent in random.integers(1, 4, 3))

    def lying(name: str, shape: tuple[int, ...]) -> Form:
        """Dimensions in a random order in memory, some of them padded."""
        strides, step = [0] * len(shape), 1
        plain = random.random() < 0.5
        for axis in range(len(shape))[::-1] if plain else random.permutation(len(shape)):
            strides[axis] = step
            step *= shape[axis] + int(random.random() < 0.2)
        return Form(name, FP32, shape, tuple(strides))

    def some(*matrix: int) -> tuple[int, ...]:
        return (*(e if random.random() < 0.7 else 1 for e in batch), *matrix)

    a, b = lying("a", some(m, k)), lying("b", some(k, n))
    places, rows, found = operands(a, b, lying("out", product_shapes(a, b).result()))
    made = collapse(places, rows, found)
    assert rows_met(made) == rows_meant(places, rows, found)
    assert made.m * made.batch * len(made.offsets) == m * int(np.prod(places, dtype=int))


def collapsed(a: tuple[int, ...], b: tuple[int, ...]) -> Collapsed:
    forms = packed("a", FP32, a), packed("b", FP32, b)
    out = packed("out", FP32, product_shapes(*forms).result())
    return collapse(*operands(*forms, out))


def test_a_batch_with_one_b_is_one_product() -> None:
    made = collapsed((6, 5, 3, 2), (2, 4))
    assert (made.m, made.batch, len(made.offsets)) == (90, 1, 1)


def test_a_batch_on_both_sides_stays_one_launch() -> None:
    made = collapsed((6, 5, 3, 2), (6, 5, 2, 4))
    assert (made.m, made.batch, len(made.offsets)) == (3, 30, 1)


def test_what_cannot_be_one_stride_becomes_launches() -> None:
    """a is a matrix a row of batches, b one a column: neither dimension continues the other."""
    made = collapsed((6, 1, 3, 2), (1, 5, 2, 4))
    assert (made.m, made.batch, len(made.offsets)) == (3, 6, 5)
    assert [offsets["b"] for offsets in made.offsets] == [0, 32, 64, 96, 128]


def test_rows_that_would_count_beyond_an_int_are_not_folded() -> None:
    made = collapsed((2, 2**30, 1), (1, 1))
    assert (made.m, made.batch) == (2**30, 2)
    assert collapsed((2, 2**30 - 1, 1), (1, 1)).m == 2**31 - 2


def test_many_small_matrices_are_one_launch() -> None:
    """Faults OVF-05 and OVF-06: 65,536 and more of them; the kernels' grids are their own."""
    made = collapsed((70_000, 2, 3), (70_000, 3, 4))
    assert (made.batch, len(made.offsets)) == (70_000, 1)


@pytest.mark.parametrize("odd", [0, 1, 3, -7, 10**6])
def test_strides_of_single_rows_and_columns_mean_nothing(odd: int) -> None:
    """Fault ALN-12: TMA takes them whatever they are, and the requests are the same one."""
    for shape, strides in (((1, 24), (odd, 1)), ((24, 1), (1, odd)), ((1, 1), (odd, odd))):
        a = Form("a", BF16, shape, strides)
        made = Collapsed(shape[0], 1, {"a": Strides((0,), *strides)}, ({"a": 0},))
        found = matrix(a, *shape, "a", made)
        assert None in (found.tma_refusal(), found.transposed.tma_refusal())
        plain = packed("a", BF16, shape)
        made = Collapsed(shape[0], 1, {"a": Strides((0,), *plain.strides)}, ({"a": 0},))
        if odd > 0 or shape != (1, 1):
            assert found == matrix(plain, *shape, "a", made)


def test_the_alignment_holds_for_all_launches() -> None:
    a = Form("a", BF16, (3, 2, 2), (5, 2, 1), alignment=8)
    made = Collapsed(2, 1, {"a": Strides((0,), 2, 1)}, tuple({"a": i * 10} for i in range(3)))
    assert matrix(a, 2, 2, "a", made).alignment == 2


@pytest.mark.parametrize(
    ("shape", "strides", "overlap"),
    [
        ((3, 4), (4, 1), False), ((3, 4), (1, 3), False), ((3, 4), (-4, -1), False),
        ((3, 4), (0, 1), True), ((3, 4), (1, 0), True), ((1, 4), (0, 1), False),
        ((3, 4), (2, 1), True), ((3, 4), (8, 2), False), ((0, 4), (0, 0), False), ((), (), False),
        ((2, 3, 4), (12, 4, 1), False), ((2, 3, 4), (6, 4, 1), True),
    ],
)  # fmt: skip
def test_arrays_whose_elements_share_places(
    shape: tuple[int, ...], strides: tuple[int, ...], overlap: bool
) -> None:
    assert overlaps_itself(Form("out", FP32, shape, strides)) is overlap
