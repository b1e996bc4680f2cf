"""The oracle accepts what hardware may do and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.dtypes import BF16, FP16, FP32, TF32, DType
from tilewright.errors import InputError
from tilewright.verify import judge, oracle, random_operands

M, N = 96, 72
pytest.importorskip("ml_dtypes", reason="bf16 arrays need ml_dtypes")


def product(a: npt.NDArray[Any], b: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    """fp32 sums of 16 products at a time, rounded once: what a kernel does."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(0, a.shape[1], 16):
        total += a[:, k : k + 16].astype("f4") @ b[k : k + 16].astype("f4")
    return total.astype(dtype.numpy())


def truncated(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """As tensor cores sum: after each mma the fp32 result is cut towards zero."""
    total = np.zeros((len(a), b.shape[1]), np.float64)
    for k in range(0, a.shape[1], 16):
        total = total + a[:, k : k + 16].astype("f8") @ b[k : k + 16].astype("f8")
        raw = total.astype("f4")
        over = np.abs(raw) > np.abs(total)
        total = np.where(over, np.nextafter(raw, np.float32(0)), raw).astype("f8")
    return total


@pytest.mark.parametrize("dtype", [BF16, FP16], ids=lambda d: d.name)
@pytest.mark.parametrize("k", [16, 64, 256, 1024, 8192])
def test_accepts_a_right_product(dtype: DType, k: int) -> None:
    a, b = random_operands(M, N, k, dtype, seed=k)
    verdict = judge(product(a, b, dtype), oracle(a, b, dtype))
    assert verdict.correct
    assert 0 < verdict.rel_error < 2 * dtype.unit_roundoff


def test_accepts_truncating_sums_of_one_sign() -> None:
    """All products positive: the truncations add up in one direction."""
    a, b = (np.abs(x) for x in random_operands(M, N, 16384, BF16))
    assert judge(truncated(a, b).astype(BF16.numpy()), oracle(a, b, BF16)).correct


def sequential(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """k fused multiply-adds in fp32: float64 holds a product and its sum almost exactly."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total = (total + a[:, k : k + 1].astype("f8") * b[k].astype("f8")).astype(np.float32)
    return total


@pytest.mark.parametrize("k", [1, 2, 3, 15, 16, 64, 1024, 4096])
@pytest.mark.parametrize("positive", [False, True])
def test_accepts_fp32_sums_in_order(k: int, positive: bool) -> None:
    a, b = random_operands(M, N, k, FP32, seed=k)
    if positive:
        a, b = np.abs(a), np.abs(b)
    assert judge(sequential(a, b), oracle(a, b, FP32)).correct


def test_accepts_fp32_sums_of_subnormal_products() -> None:
    a, b = (x * np.float32(2.0**-73) for x in random_operands(M, N, 256, FP32))
    assert judge(sequential(a, b), oracle(a, b, FP32)).correct


def tf32(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Rounded to 10 bits of mantissa."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.mark.parametrize("k", [1, 16, 256, 4096])
def test_tf32_is_no_fp32(k: int) -> None:
    a, b = random_operands(M, N, k, FP32, seed=k)
    c = tf32(a).astype("f8") @ tf32(b).astype("f8")
    assert not judge(c.astype(np.float32), oracle(a, b, FP32)).correct


def cut_to(bits: int, x: npt.NDArray[Any], nearest: bool) -> npt.NDArray[Any]:
    """fp32 with so many bits of precision, rounded or the others dropped."""
    drop = np.uint32(24 - bits)
    words = x.view(np.uint32) + (np.uint32(1 << (drop - 1)) if nearest else np.uint32(0))
    return (words >> drop << drop).view(np.float32)


@pytest.mark.parametrize("k", [1, 8, 200, 4096])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("nearest", [False, True])
def test_accepts_both_ways_of_cutting_to_tf32(k: int, positive: bool, nearest: bool) -> None:
    a, b = random_operands(M, N, k, TF32, seed=k)
    if positive:
        a, b = np.abs(a), np.abs(b)
    c = cut_to(11, a, nearest).astype(np.float64) @ cut_to(11, b, nearest).astype(np.float64)
    verdict = judge(c.astype(np.float32), oracle(a, b, TF32))
    assert verdict.correct, verdict.message


@pytest.mark.parametrize("k", [1, 8, 200, 4096])
def test_fewer_bits_than_tf32_has_are_wrong(k: int) -> None:
    a, b = random_operands(M, N, k, TF32, seed=k)
    c = cut_to(8, a, True).astype(np.float64) @ cut_to(8, b, True).astype(np.float64)  # bf16
    assert not judge(c.astype(np.float32), oracle(a, b, TF32)).correct


@pytest.mark.parametrize("k", [8, 200, 4096])
def test_a_tf32_product_without_its_last_k_is_wrong(k: int) -> None:
    a, b = random_operands(M, N, k, TF32, seed=k)
    short = a[:, :-1].astype(np.float64) @ b[:-1].astype(np.float64)
    assert not judge(short.astype(np.float32), oracle(a, b, TF32)).correct


@pytest.mark.parametrize("k", [2, 256, 4096])
def test_an_fp32_product_without_its_last_k_is_wrong(k: int) -> None:
    a, b = random_operands(M, N, k, FP32, seed=k)
    assert not judge(sequential(a[:, :-1], b[:-1]), oracle(a, b, FP32)).correct


@pytest.fixture
def right() -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    a, b = random_operands(M, N, 256, BF16, seed=3)
    return a, b, product(a, b, BF16)


Right = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]


def test_an_unwritten_element_is_wrong(right: Right) -> None:
    a, b, c = right
    c[3, 5] = np.nan
    verdict = judge(c, oracle(a, b, BF16))
    assert not verdict.correct
    assert verdict.message.startswith("1 of 6912 checked elements are wrong, first C[3, 5] = nan")
    assert np.isnan(verdict.rel_error)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 0.0])
def test_a_wrong_element_is_wrong(right: Right, value: float) -> None:
    a, b, c = right
    c[7, 1] = value
    assert not judge(c, oracle(a, b, BF16)).correct


def test_all_nan_is_wrong(right: Right) -> None:
    a, b, c = right
    c[:] = np.nan
    assert not judge(c, oracle(a, b, BF16)).correct


def test_zeros_are_wrong_for_small_data(right: Right) -> None:
    a, b, _ = right
    small = (a.astype("f4") * 1e-3).astype(BF16.numpy())
    assert not judge(np.zeros((M, N), BF16.numpy()), oracle(small, b, BF16)).correct


def test_a_dropped_k_is_wrong(right: Right) -> None:
    a, b, _ = right
    assert not judge(product(a[:, :-1], b[:-1], BF16), oracle(a, b, BF16)).correct


def test_swapped_operands_are_wrong() -> None:
    a, b = random_operands(64, 64, 64, BF16)
    assert not judge(product(b, a, BF16), oracle(a, b, BF16)).correct


def test_bf16_sums_are_wrong(right: Right) -> None:
    a, b, _ = right
    total = np.zeros((M, N), BF16.numpy())
    for k in range(0, 256, 16):
        part = a[:, k : k + 16].astype("f4") @ b[k : k + 16].astype("f4")
        total = (total.astype("f4") + part).astype(BF16.numpy())
    assert not judge(total, oracle(a, b, BF16)).correct


def test_a_truncating_store_is_wrong(right: Right) -> None:
    a, b, _ = right
    exact = (a.astype("f4") @ b.astype("f4")).view(np.uint32) & np.uint32(0xFFFF0000)
    assert not judge(exact.view("f4").astype(BF16.numpy()), oracle(a, b, BF16)).correct


def test_subnormal_results_pass() -> None:
    a, b = random_operands(M, N, 64, FP16, seed=9)
    a, b = ((x.astype("f4") * 2**-10).astype(np.float16) for x in (a, b))
    assert judge(product(a, b, FP16), oracle(a, b, FP16)).correct


def test_a_large_product_is_checked_on_drawn_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.verify._ALL_ROWS_BELOW", 1e6)
    a, b = random_operands(640, N, 64, BF16)
    reference = oracle(a, b, BF16, seed=1)
    assert len(reference.rows) <= 256
    assert {0, 639} <= set(reference.rows.tolist())
    c = product(a, b, BF16)
    assert judge(c, reference).correct
    c[639, 0] = np.nan
    assert not judge(c, reference).correct


def test_operands_are_normal_and_repeatable() -> None:
    a, b = random_operands(128, 96, 64, FP16, seed=5)
    again, _ = random_operands(128, 96, 64, FP16, seed=5)
    assert (a == again).all()
    assert a.shape == (128, 64)
    assert b.shape == (64, 96)
    assert abs(float(a.astype("f8").std()) - 1) < 0.05


@pytest.mark.parametrize("dtype", [BF16, FP16], ids=lambda d: d.name)
def test_three_times_the_allowance_of_the_sum_is_wrong(dtype: DType) -> None:
    """Where the product is nearly zero its rounding allows nothing: the sum's allowance is all."""
    a, b = random_operands(M, N, 256, dtype, seed=4)
    exact = a.astype("f8") @ b.astype("f8")
    at = np.unravel_index(np.abs(exact).argmin(), exact.shape)
    allowance = (4 * 16 + 256 / 8) * 2.0**-24 * (np.abs(a[at[0]].astype("f8")) @ np.abs(
        b[:, at[1]].astype("f8")))  # fmt: skip
    c = product(a, b, dtype)
    c[at] = exact[at] + 3 * allowance + dtype.unit_roundoff * abs(exact[at])
    verdict = judge(c, oracle(a, b, dtype))
    assert not verdict.correct
    assert verdict.message.startswith("1 of 6912")


def test_another_shape_is_refused(right: Right) -> None:
    a, b, c = right
    for wrong in (c[:, :1], c[:1], np.vstack([c, c]), c.reshape(-1)):
        with pytest.raises(InputError, match=r"the product has the shape \(96, 72\)"):
            judge(wrong, oracle(a, b, BF16))


def test_large_operands_do_not_make_the_bound_infinite() -> None:
    large = np.full((16, 16), 1e30, np.float32).astype(BF16.numpy())
    assert not judge(np.full((16, 16), 7, BF16.numpy()), oracle(large, large, BF16)).correct


@pytest.mark.parametrize("seed", [-1, 1.5, "1"])
def test_a_seed_that_is_none(seed: Any) -> None:
    with pytest.raises(InputError, match="seed="):
        random_operands(8, 8, 8, BF16, seed)
