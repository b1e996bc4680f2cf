"""The reference of a whole request: it lets pass what fp32 may give, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.dtypes import BF16, FP16, FP32, DType
from tilewright.errors import InputError
from tilewright.gemm.epilogue import Activation, AddC, Alpha, Bias, Chain, Expression, Gate, Scale
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.part import Part
from tilewright.gemm.reference import expected
from tilewright.gemm.request import Request

pytest.importorskip("ml_dtypes", reason="bf16 arrays need ml_dtypes")

Array = npt.NDArray[Any]
M, N, K = 9, 14, 40
VECTOR = Matrix(FP32, M, N, 0, 1)


def plain(dtype: DType, rows: int, cols: int) -> Matrix:
    return Matrix(dtype, rows, cols, cols, 1)


def request(
    dtype: DType = BF16, out: DType = BF16, parts: tuple[Part, ...] = (), n: int = N
) -> Request:
    return Request(plain(dtype, M, K), plain(dtype, K, N), plain(out, M, n), epilogue=parts)


def operands(dtype: DType, *batch: int) -> dict[str, Array]:
    random = np.random.default_rng(1)
    return {
        "a": random.standard_normal((*batch, M, K), np.float32).astype(dtype.numpy()),
        "b": random.standard_normal((*batch, K, N), np.float32).astype(dtype.numpy()),
        "bias": random.standard_normal(N, np.float32),
        "c": random.standard_normal((M, N), np.float32),
        "alpha": np.array(0.3),
        "beta": np.array(-2.5),
    }


def fp32(arrays: dict[str, Array]) -> npt.NDArray[np.float32]:
    """alpha·AB + beta·C + bias as a kernel sums it: one product after the other."""
    a, b = arrays["a"].astype(np.float32), arrays["b"].astype(np.float32)
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    for k in range(K):
        total += a[..., k, None] * b[..., None, k, :]
    total = total * np.float32(arrays["alpha"]) + np.float32(arrays["beta"]) * arrays["c"]
    return np.asarray(total + arrays["bias"], np.float32)


CHAIN = Alpha() >> AddC(plain(FP32, M, N)) >> Bias(VECTOR)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize(
    ("dtype", "out"), [(BF16, BF16), (FP16, FP16), (BF16, FP32), (FP32, FP32), (FP32, BF16)]
)
def test_fp32_sums_pass_and_what_is_further_off_fails(
    dtype: DType, out: DType, batch: tuple[int, ...]
) -> None:
    arrays = operands(dtype, *batch)
    got = fp32(arrays).astype(out.numpy())
    reference = expected(request(dtype, out, CHAIN), arrays)
    assert reference.verdict(got).correct
    at = (*(0 for _ in batch), 4, 5)
    for factor in (1 + 5 * max(out.unit_roundoff, 2.0**-17), np.nan, np.inf, 0):
        wrong = got.copy()
        wrong[at] = np.asarray(wrong[at], np.float64) * factor
        verdict = reference.verdict(wrong)
        assert not verdict.correct
        assert verdict.message.startswith("1 of")
        assert f"D{list(at)} = " in verdict.message


def test_a_bound_is_no_more_than_the_parts_add() -> None:
    arrays = operands(BF16)
    bare = expected(request(BF16, FP32), arrays)
    whole = expected(request(BF16, FP32, CHAIN), arrays)
    assert (whole.bound < 0.3 * bare.bound + 2.0**-21 * 20).all()
    assert (whole.bound > 0.29 * bare.bound).all()


def test_nan_and_infinity_must_be_where_float64_has_them() -> None:
    arrays = operands(BF16)
    arrays["a"][2, 3], arrays["a"][5, 3], arrays["b"][3, 6] = np.nan, np.inf, 0
    reference = expected(request(out=FP32, parts=Chain([Activation("relu")])), arrays)
    assert np.isnan(reference.exact[2]).all()
    assert np.isnan(reference.exact[5, 6])
    assert np.isposinf(reference.exact[5]).any()
    got = reference.exact.astype(np.float32)
    assert reference.verdict(got).correct
    for at, value in (((2, 0), 0), ((5, 6), np.inf), ((0, 0), np.nan)):
        wrong = got.copy()
        wrong[at] = value
        assert not reference.verdict(wrong).correct


def test_a_result_beyond_its_type_is_infinite() -> None:
    arrays = {"a": np.full((M, K), 250, np.float16), "b": np.full((K, N), 250, np.float16)}
    reference = expected(request(FP16, FP16), arrays)
    assert reference.verdict(np.full((M, N), np.inf, np.float16)).correct
    assert not reference.verdict(np.full((M, N), 65504, np.float16)).correct


def test_nothing_is_said_of_sums_that_overflow() -> None:
    arrays = operands(BF16)
    arrays["a"][1, :2], arrays["b"][:2, 1] = (3e38, -3e38), 3
    reference = expected(request(out=FP32), arrays)
    assert np.isinf(reference.bound[1, 1])
    assert np.isfinite(reference.bound[0]).all()


def test_a_sample_of_rows_has_their_own_operands() -> None:
    arrays = operands(BF16) | {"scale": np.arange(1.0, M + 1)[:, None]}
    parts = CHAIN >> Scale(Matrix(FP32, M, N, 1, 0)) >> Expression("x + row")
    rows = np.array([1, 4, 8])
    sampled = expected(request(parts=parts), arrays, rows)
    whole = expected(request(parts=parts), arrays)
    np.testing.assert_allclose(sampled.exact, whole.exact[rows], rtol=1e-12)
    np.testing.assert_allclose(sampled.bound, whole.bound[rows], rtol=1e-5)


def test_a_gate_halves_the_columns() -> None:
    arrays = operands(BF16)
    reference = expected(request(parts=CHAIN >> Gate("swiglu", N // 2), n=N // 2), arrays)
    x = fp32(arrays).astype(np.float64)
    gate, up = x[:, : N // 2], x[:, N // 2 :]
    got = (gate / (1 + np.exp(-gate)) * up).astype(BF16.numpy())
    assert reference.verdict(got).correct
    assert not reference.verdict((gate / (1 + np.exp(-up)) * up).astype(BF16.numpy())).correct


def test_without_c_nothing_of_it_counts() -> None:
    arrays = operands(BF16)
    arrays["c"][:] = np.nan
    reference = expected(request(parts=Alpha() >> Bias(VECTOR)), arrays)
    assert np.isfinite(reference.bound).all()


def test_what_is_missing_is_named() -> None:
    arrays = operands(BF16)
    del arrays["bias"]
    with pytest.raises(InputError, match="'bias', which is not among a, b, c"):
        expected(request(parts=CHAIN), arrays)
    with pytest.raises(InputError, match=r"\(9, 13\) and must be \(9, 14\)"):
        expected(request(), arrays).verdict(np.zeros((M, N - 1), np.float32))
