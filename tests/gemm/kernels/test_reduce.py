"""reduce: partial sums in every layout of the result, with and without an epilogue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import BF16, FP16, FP32, DType
from tilewright.errors import InputError
from tilewright.gemm.kernels.reduce import reduce_steps
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.plan import Plan
from tilewright.gemm.request import Request
from tilewright.gemm.step import WORKSPACE, Address


@pytest.mark.parametrize(
    ("shape", "splits", "layout", "parts", "out", "swapped"),
    [
        ((2, 5, 12), 3, "n4", (), BF16, False),
        ((2, 37, 31), 2, "flipped", ("bias", "scale"), FP32, False),
        ((2, 9, 20), 4, "t8", ("bias",), FP16, True),
        ((2, 6, 12), 3, "t", ("gate", "scale"), FP32, False),
    ],
)
def test_the_sum_of_the_splits(
    bench: Any,
    shape: tuple[int, int, int],
    splits: int,
    layout: str,
    parts: tuple[str, ...],
    out: DType,
    swapped: bool,
) -> None:
    """The partial sums are those of a product's own K, a part each."""
    batch, m, n = shape
    k = 8 * splits
    given = bench.case(
        np.random.default_rng(1), FP32, m, n, k, out=out, batch=batch,
        layouts=("n", "n", layout), parts=parts,
    )  # fmt: skip
    a, b = (given.operands[name].view for name in ("a", "b"))
    partial = np.stack([a[:, :, at : at + 8] @ b[:, at : at + 8] for at in range(0, k, 8)])
    if swapped:
        partial = partial.swapaxes(-1, -2)
    given.operands["sums"] = bench.laid(FP32, (1, 1, partial.size))
    given.operands["sums"].memory[:] = partial.reshape(-1)
    steps = reduce_steps(given.request, splits, Address("sums"), bench.gpu.arch, swapped)
    bench.check(given, Plan("reduce", "", steps))


def test_the_order_is_that_of_the_splits(bench: Any) -> None:
    """2²⁴ + 1 + 1 + … in fp32 depends on where one begins: 1 + 1 first would count."""
    given = bench.case(np.random.default_rng(1), FP32, 1, 4, 1)
    partial = np.repeat(np.array([2**24, 1, 1, -(2**24)], np.float32), 4)
    sums, out = bench.engine.upload(partial), bench.engine.empty((4,), np.dtype(np.float32))
    (step,) = reduce_steps(given.request, 4, Address("sums"), bench.gpu.arch)
    bench.launch(step, {"sums": sums.address, "out": out.address})
    assert (bench.engine.download(out) == 0).all()


def test_refusals() -> None:
    matrix = Matrix(BF16, 8, 8, 8, 1)
    request = Request(matrix, matrix, matrix)
    with pytest.raises(InputError, match=r"source.offset=8 must be a multiple of 16"):
        reduce_steps(request, 2, Address(WORKSPACE, 8), "sm_90")
    empty = Matrix(BF16, 0, 8, 8, 1)
    with pytest.raises(InputError, match="take 0 threads"):
        reduce_steps(Request(empty, matrix, empty), 2, Address(WORKSPACE), "sm_90")
