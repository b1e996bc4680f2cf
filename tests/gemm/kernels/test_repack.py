"""repack: what lies at the copy, and that TMA takes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import BF16, FP32, DType
from tilewright.errors import InputError
from tilewright.gemm.kernels.repack import repack_bytes, repack_step, repacked
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.step import Address

CASES = [  # which way the copy lies: as the source does, or the other way
    (BF16, "n", None),
    (BF16, "t", None),
    (BF16, "flipped", False),
    (BF16, "t2", True),
    (BF16, "cols repeat", None),
    (FP32, "spread", None),
    (FP32, "t", True),
]


@pytest.mark.parametrize(("dtype", "layout", "row_major"), CASES)
@pytest.mark.parametrize("shape", [(1, 71, 150), (3, 5, 9)])
def test_the_copy_is_the_matrix_and_tma_takes_it(
    bench: Any, dtype: DType, layout: str, row_major: bool | None, shape: tuple[int, int, int]
) -> None:
    given = bench.laid(dtype, shape, layout, lead=1)
    given.memory[:] = np.random.default_rng(0).standard_normal(given.memory.shape)
    ahead = 256  # of the copy in the workspace
    step, copy = repack_step(
        given.matrix, Address("a"), Address("workspace", ahead), bench.gpu.arch, shape[0], row_major
    )
    size = repack_bytes(given.matrix, shape[0], row_major)
    workspace = bench.engine.upload(np.full((ahead + size) // dtype.bytes, np.nan, dtype.numpy()))
    source = bench.engine.upload(given.memory)
    start = source.address + given.start * dtype.bytes
    bench.launch(step, {"a": start, "workspace": workspace.address})
    got = bench.engine.download(workspace)
    assert np.isnan(got[: ahead // dtype.bytes].astype(np.float32)).all()
    strides = [copy.batch_stride, copy.row_stride, copy.col_stride]
    strides = [stride * dtype.bytes for stride in strides]
    view = np.lib.stride_tricks.as_strided(got[ahead // dtype.bytes :], shape, strides)
    np.testing.assert_array_equal(view, given.view)
    lying = copy if copy.row_major else copy.transposed
    assert lying.tma_refusal() is None
    assert row_major is None or (copy.col_stride == 1) == row_major


@pytest.mark.parametrize("row_major", [True, False])
def test_both_ways_read_and_write_whole_sectors(bench: Any, row_major: bool) -> None:
    """Row by row in the source; 32 bytes are a sector."""
    matrix = Matrix(BF16, 64, 128, 128, 1)
    step, _ = repack_step(matrix, Address("a"), Address("b"), bench.gpu.arch, row_major=row_major)
    source = bench.engine.upload(np.zeros((64, 128), BF16.numpy()))
    copy = bench.engine.empty((64, 128), BF16.numpy())
    report = bench.launch(step, {"a": source.address, "b": copy.address})
    if report is not None:
        assert report.totals["global_sectors"] == report.totals["global_sectors_ideal"]
        assert report.totals["bank_conflicts"] == 0


def test_sizes() -> None:
    """4097 elements a row become 4104; a matrix that is the same for all is copied once."""
    matrix = Matrix(BF16, 3, 4097, 4097, 1, batch_stride=3 * 4097)
    assert repacked(matrix, 2) == Matrix(BF16, 3, 4097, 4104, 1, 3 * 4104)
    assert repack_bytes(matrix, 2) == -(-2 * 3 * 4104 * 2 // 256) * 256
    same = Matrix(BF16, 3, 4097, 4097, 1)
    assert repacked(same, 2) == Matrix(BF16, 3, 4097, 4104, 1)
    assert repack_bytes(same, 2) == -(-3 * 4104 * 2 // 256) * 256


def test_refusals() -> None:
    matrix = Matrix(BF16, 3, 5, 5, 1)
    with pytest.raises(InputError, match=r"to.offset=8 must be a multiple of 16"):
        repack_step(matrix, Address("a"), Address("workspace", 8), "sm_90")
    with pytest.raises(InputError, match="0 blocks"):
        repack_step(Matrix(BF16, 0, 5, 5, 1), Address("a"), Address("b"), "sm_90")
