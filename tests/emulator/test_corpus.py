"""Kernels as people write them: right results, and nothing found in any order of the warps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright

CORPUS = Path(__file__).parent / "corpus"
SEEDS = (None, 1, 2, 3, 4, 5)  # None is lockstep

pytestmark = pytest.mark.usefixtures("compiler")
Floats = np.ndarray[Any, np.dtype[Any]]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def normal(*shape: int, dtype: Any = "f4") -> Floats:
    return rng().standard_normal(shape).astype(dtype)


def unset(*shape: int, dtype: Any = "f4") -> Floats:
    return np.full(shape, np.nan, dtype)


def clean(
    file: str,
    kernel: str | None,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    expect: Mapping[int, Any],
    rtol: float = 1e-5,
    atol: float = 1e-5,
    **how: Any,
) -> None:
    """Runs in lockstep and under random schedules; `expect` holds arguments by position."""
    for seed in SEEDS:
        given = [each.copy() if isinstance(each, np.ndarray) else each for each in args]
        order: dict[str, Any] = {} if seed is None else {"schedule": "random", "seed": seed}
        report = tilewright.emulate(CORPUS / file, kernel, grid, block, given, **order, **how)
        assert [(it.kind, it.line, it.message) for it in report.findings] == [], f"seed {seed}"
        assert report.completed
        for place, value in expect.items():
            found = given[place]
            if callable(value):
                found, value = value(found)
            got = np.asarray(found)
            want = np.asarray(value).reshape(got.shape)
            if got.dtype.kind in "iu":
                np.testing.assert_array_equal(got, want, f"seed {seed}")
            else:
                np.testing.assert_allclose(
                    got.astype("f8"), want.astype("f8"), rtol, atol, err_msg=f"seed {seed}"
                )


# --- Sums and prefix sums ---------------------------------------------------------------


@pytest.mark.parametrize("threads", [128, 256])
def test_sum_in_a_tree(threads: int) -> None:
    x = normal(1001)
    mine = np.arange(x.size) // threads % 3
    want = [x[mine == block].sum(dtype="f8") for block in range(3)]
    clean("reduce.cu", f"reduce::tree<{threads}>", (3,), (threads,), [unset(3), x, 1001], {0: want})


def test_sum_by_shuffles_and_atomics() -> None:
    x = normal(2020)
    clean("reduce.cu", "sum_shuffle", (3,), (96,), [np.zeros(1, "f4"), x, 505], {0: x.sum()}, 1e-4)


def test_sum_with_volatile_shared_memory() -> None:
    x = normal(777)
    want = [x[at : at + 256].sum() for at in range(0, 777, 256)]
    args = [unset(4), x, 777]
    clean("reduce.cu", "sum_volatile", (4,), (128,), args, {0: want}, shared_bytes=512)


def test_sum_by_the_last_block() -> None:
    x = normal(999)
    args = [unset(1), unset(5), x, 999]
    clean("reduce.cu", "sum_last_block", (5,), (96,), args, {0: x.sum(dtype="f8")}, atol=1e-4)


def test_minimum_and_maximum_by_redux() -> None:
    x = rng().integers(-(10**6), 10**6, 333, "i4")
    args = [np.full(1, 2**31 - 1, "i4"), np.full(1, -(2**31), "i4"), x, 333]
    clean("reduce.cu", "minmax_redux", (3,), (128,), args, {0: x.min(), 1: x.max()})


def test_dot_product_in_double() -> None:
    a, b = np.abs(normal(129, dtype="f8")), np.abs(normal(129, dtype="f8")) + 1
    dot = a @ b
    want = np.sqrt(dot) / (1 + np.exp(-dot))
    clean("reduce.cu", "dot_double", (1,), (64,), [unset(1, dtype="f8"), a, b, 129], {0: want})


@pytest.mark.parametrize(("kind", "size"), [("int", 256), ("float", 128)])
def test_inclusive_scan(kind: str, size: int) -> None:
    n = size - 27
    x = rng().integers(-9, 9, n).astype("i4" if kind == "int" else "f4")
    out = np.zeros(n, "i4") if kind == "int" else unset(n)
    clean("scan.cu", f"hillis_steele<{kind}, {size}>", (1,), (size,), [out, x, n], {0: x.cumsum()})


def test_exclusive_scan() -> None:
    x = rng().integers(-99, 99, 199, "i4")
    args = [np.zeros(199, "i4"), x, 199]
    want = x.cumsum() - x
    clean("scan.cu", "blelloch", (1,), (128,), args, {0: want}, shared_bytes=264 * 4)


def test_scan_of_blocks_in_a_chain() -> None:
    x = rng().integers(-99, 99, 601, "i4")
    args = [np.zeros(601, "i4"), x, 601, *(np.zeros(n, "i4") for n in (1, 5, 5))]
    clean("scan.cu", "chained", (5,), (128,), args, {0: x.cumsum()})


# --- Rearranging ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "dtype"), [("float", "f4"), ("double", "f8"), ("unsigned short", "u2")]
)
def test_transpose(kind: str, dtype: str) -> None:
    x = rng().integers(0, 999, (45, 71)).astype(dtype)
    out = np.zeros((71, 45), dtype) if dtype == "u2" else unset(71, 45, dtype=dtype)
    clean("rearrange.cu", f"transpose<{kind}>", (3, 2), (32, 8), [out, x, 45, 71], {0: x.T})


def test_histogram() -> None:
    data = (rng().standard_normal(3001) * 20 + 100).astype("u1")
    args = [np.zeros(256, "u4"), data, 3001]
    clean("rearrange.cu", "histogram", (3,), (160,), args, {0: np.bincount(data, minlength=256)})


def test_bitonic_sort() -> None:
    x = normal(500)
    args = [x, np.zeros(500, "i4"), 500]
    clean("rearrange.cu", "bitonic", (1,), (256,), args, {0: np.sort(x), 1: np.argsort(x)})


def test_radix_count() -> None:
    keys = rng().integers(0, 2**32, 1200, "u4")
    digits = keys >> 8 & 15
    want = [[(digits[b : b + 512] == d).sum() for b in (0, 512, 1024)] for d in range(16)]
    args = [np.full((16, 3), -1, "i4"), keys, 1200, 8]
    clean("rearrange.cu", "radix_count", (3,), (128,), args, {0: want})


def test_compaction() -> None:
    x = normal(455)
    kept = np.sort(x[x > 0])
    args = [np.zeros(455, "f4"), np.zeros(1, "i4"), x, 455]
    clean(
        "rearrange.cu",
        "compact",
        (4,),
        (128,),
        args,
        {0: lambda out: (np.sort(out[: kept.size]), kept), 1: kept.size},
    )


def test_top_k_of_a_warp() -> None:
    x = normal(7, 83)
    where = np.argsort(-x, 1, kind="stable")[:, :5]
    args = [unset(7, 5), np.zeros((7, 5), "i4"), x, 7, 83]
    expect = {0: np.take_along_axis(x, where, 1), 1: where}
    clean("rearrange.cu", "top_k<5>", (2,), (128,), args, expect)


# --- Rows -------------------------------------------------------------------------------


def softmax(x: Floats) -> Floats:
    e: Floats = np.exp(x - x.max(1, keepdims=True))
    result: Floats = e / e.sum(1, keepdims=True)
    return result


def test_softmax() -> None:
    x = normal(3, 203) * 4
    clean("rows.cu", "softmax_rows", (3,), (96,), [unset(3, 203), x, 203], {0: softmax(x)})


def test_softmax_in_one_pass() -> None:
    x = normal(7, 75) * 4
    args = [unset(7, 75), x, 7, 75]
    clean("rows.cu", "softmax_online", (2,), (32, 4), args, {0: softmax(x)})


def test_layer_norm_in_half() -> None:
    x, gamma, beta = normal(3, 130, dtype="f2"), normal(130, dtype="f2"), normal(130, dtype="f2")
    wide = x.astype("f8")
    spread = np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    want = (wide - wide.mean(1, keepdims=True)) / spread * gamma + beta
    args = [unset(3, 130, dtype="f2"), x, gamma, beta, 65, 1e-5]
    clean("rows.cu", "layer_norm", (3,), (64,), args, {0: want}, 4e-3, 4e-3)


@pytest.mark.parametrize("name", ["__half", "__nv_bfloat16"])
def test_rms_norm(name: str) -> None:
    dtype = "f2" if name == "__half" else pytest.importorskip("ml_dtypes").bfloat16
    x, weight = normal(5, 77).astype(dtype), normal(77)
    wide = x.astype("f8")
    want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * weight
    args = [unset(5, 77, dtype=dtype), x, weight, 77]
    clean("rows.cu", f"rms_norm<{name}>", (5,), (64,), args, {0: want}, 1e-2, 1e-2)


def test_matrix_times_vector() -> None:
    a, x = normal(11, 101), normal(101)
    clean("rows.cu", "gemv", (3,), (128,), [unset(11), a, x, 11, 101], {0: a @ x}, atol=1e-4)


def test_sparse_matrix_times_vector() -> None:
    full = normal(75, 53, dtype="f8") * (rng().random((75, 53)) < 0.1)
    column, value = np.nonzero(full)[1].astype("i4"), full[full != 0]
    start = np.concatenate([[0], np.count_nonzero(full, 1).cumsum()]).astype("i4")
    x = normal(53, dtype="f8")
    args = [unset(75, dtype="f8"), value, column, start, x, 75]
    clean("rows.cu", "spmv", (2,), (32,), args, {0: full @ x}, 1e-12, 1e-12)


def test_atomics_by_compare_and_swap() -> None:
    x = normal(333)
    args = [np.zeros(1), np.full(1, -1e30, "f4"), x, 333]
    want = {0: x.astype("f8").sum(), 1: x.max()}
    clean("elementwise.cu", "sum_and_max", (3,), (64,), args, want)


# --- Elements ---------------------------------------------------------------------------


def test_gelu_in_half() -> None:
    x = normal(302, dtype="f2") * np.float16(2)
    wide = x.astype("f8")
    want = wide * 0.5 * (1 + np.tanh(0.7978845608 * (wide + 0.044715 * wide**3)))
    args = [unset(302, dtype="f2"), x, 151]
    clean("elementwise.cu", "gelu_half2", (2,), (96,), args, {0: want}, 1e-3, 1e-3)


def test_silu_in_bfloat16() -> None:
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    x = normal(808).astype(dtype)
    wide = x.astype("f8")
    args = [unset(808, dtype=dtype), x, 101]
    clean(
        "elementwise.cu",
        "silu_bf16",
        (1,),
        (64,),
        args,
        {0: wide / (1 + np.exp(-wide))},
        8e-3,
        1e-3,
    )


def test_axpy_in_half() -> None:
    x, y = normal(131, dtype="f2"), normal(131, dtype="f2")[::-1].copy()
    want = 0.75 * x.astype("f8") + y.astype("f8")
    args = [y, x, np.float16(0.75), 131]
    clean("elementwise.cu", "axpy_half", (3,), (32,), args, {0: want}, 1e-3, 1e-3)


def test_philox() -> None:
    c = [np.full(75, 0, object) for _ in range(4)]
    c[0] = np.array([2**32 - 40 + i & 0xFFFFFFFF for i in range(75)], object)
    c[1] = np.array([2**32 - 40 + i >> 32 for i in range(75)], object)
    k, low = [12345, 67890], 0xFFFFFFFF
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q // 2**32 ^ c[1] ^ k[0], q & low, p // 2**32 ^ c[3] ^ k[1], p & low]
        k = [k[0] + 0x9E3779B9 & low, k[1] + 0xBB67AE85 & low]
    key = np.array([12345, 67890], "u4").tobytes()
    args = [np.zeros((75, 4), "u4"), key, 2**32 - 40, 75]
    want = np.stack(c, 1).astype("u4")
    clean("elementwise.cu", "philox", (3,), (32,), args, {0: want})


def test_mandelbrot() -> None:
    pitch = np.float32(0.125)
    cx = (np.float32(-2) + np.arange(19, dtype="f4") * pitch)[None, :]
    cy = (np.float32(-1) + np.arange(13, dtype="f4") * pitch)[:, None]
    x, y, want = np.zeros((13, 19), "f4"), np.zeros((13, 19), "f4"), np.zeros((13, 19), "i4")
    for _ in range(40):
        inside = x * x + y * y <= 4
        want += inside
        moved = x * x - y * y + cx, 2 * x * y + cy
        x, y = np.where(inside, moved[0], x), np.where(inside, moved[1], y)
    args = [np.zeros((13, 19), "i4"), 19, 13, np.array([-2, -1], "f4").tobytes(), 0.125]
    clean("elementwise.cu", "mandelbrot<40>", (2, 2), (16, 8), args, {0: want})


def test_decision_tree() -> None:
    node = np.dtype([("split", "f4"), ("feature", "i4"), ("left", "i4"), ("right", "i4")])
    tree = np.array(
        [
            (0, 1, 1, 2),
            (0.5, 3, 3, 4),
            (7, 0, -1, -1),
            (-0.5, 0, 5, 6),
            *((value, 0, -1, -1) for value in (8, 9, 10)),
        ],
        node,
    )
    x = normal(75, 4)
    deep = np.where(x[:, 0] <= -0.5, 9, 10)
    left = np.where(x[:, 3] <= 0.5, deep, 8)
    value = np.where(x[:, 1] <= 0, left, 7)
    last = np.where(x[:, 1] <= 0, np.where(x[:, 3] <= 0.5, 3, 1), 0)
    args = [unset(75), np.zeros(75, "i4"), tree.view("u4"), x, 75]
    clean("elementwise.cu", "decide", (2,), (64,), args, {0: value, 1: last})


def test_assertions_that_hold_and_printf() -> None:
    x = rng().integers(1, 2**30, 75, "i4")
    reverse = np.array([int(f"{v:032b}"[::-1], 2) for v in x.tolist()])
    want = [32 - int(v).bit_length() + r % 7 + v // 3 for v, r in zip(x, reverse, strict=True)]
    clean("elementwise.cu", "checked", (3,), (32,), [np.zeros(75, "i4"), x, 75], {0: want})


def test_spin_lock() -> None:
    x = normal(75, dtype="f8")
    args = [unset(1, dtype="f8"), np.zeros(1, "i4"), x, 75]
    clean("elementwise.cu", "locked_sum", (5,), (64,), args, {0: x.sum(), 1: 5})


# --- Neighbours -------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [3, 7])
def test_stencil(radius: int) -> None:
    x = normal(201)
    want = np.convolve(x, np.ones(2 * radius + 1), "same")
    how: dict[str, Any] = {"shared_bytes": (64 + 2 * radius) * 4, "defines": {"RADIUS": radius}}
    clean("stencil.cu", "stencil_1d", (4,), (64,), [unset(201), x, 201], {0: want}, **how)


def test_convolution() -> None:
    x = normal(19, 37)
    weights = [[1, 0, -1, 2, 0.5], [3, 0.25, 0, 1, 1], [-2, 1, 4, 0, 1.5]]
    wide = np.pad(x, ((1, 1), (2, 2)))
    want = sum(weights[j][i] * wide[j : j + 19, i : i + 37] for j in range(3) for i in range(5))
    clean("stencil.cu", "convolve_2d", (3, 3), (16, 8), [unset(19, 37), x, 19, 37], {0: want})


# --- Matrix products --------------------------------------------------------------------


def test_sgemm_in_register_tiles() -> None:
    a, b = normal(45, 24), normal(24, 68)
    args = [unset(45, 68), a, b, 45, 68, 24]
    clean("matmul.cu", "sgemm_tiled", (3, 2), (64,), args, {0: a @ b}, 1e-4, 1e-4)


def test_wmma_through_shared_memory() -> None:
    a, b = normal(45, 37, dtype="f2"), normal(37, 19, dtype="f2")
    args = [unset(45, 19), a, b, 45, 19, 37]
    want = a.astype("f8") @ b.astype("f8")
    clean("matmul.cu", "wmma_staged", (2, 2), (64,), args, {0: want}, 1e-3, 1e-3)


@pytest.mark.parametrize("size", [5, 7])
def test_batched_products(size: int) -> None:
    a, b = normal(11, size, size), normal(11, size, size)[::-1].copy()
    args = [unset(11, size, size), a, b, 11]
    clean("matmul.cu", f"batched<{size}>", (3,), (32, 4), args, {0: a @ b}, 1e-4, 1e-4)


@pytest.mark.parametrize("defines", [{}, {"SPACE_FIRST": 1}])
def test_split_k_by_turns(defines: dict[str, object]) -> None:
    a, b = normal(7, 53), normal(53, 37)
    args = [unset(7, 37), a, b, 7, 37, 53, np.zeros(2, "i4")]
    expect = {0: a @ b, 6: [0, 0]}
    clean("matmul.cu", "split_k", (2, 1, 4), (32, 8), args, expect, 1e-4, defines=defines)


def test_asynchronous_copies_into_two_buffers() -> None:
    x = normal(37, 100)
    args = [unset(100), x, 37, 100]
    clean("matmul.cu", "column_sums", (2,), (128,), args, {0: x.sum(0)}, 1e-4, 1e-4)


def test_ldmatrix_and_mma() -> None:
    a, bt = normal(16, 48, dtype="f2"), normal(24, 48, dtype="f2")
    want = a.astype("f8") @ bt.astype("f8").T
    args = [unset(16, 24), a, bt, 24, 48]
    clean("matmul.cu", "mma_half", (3,), (32,), args, {0: want}, 1e-3, 1e-3)


def test_mma_of_bytes() -> None:
    a, bt = rng().integers(-128, 128, (16, 96), "i1"), rng().integers(-128, 128, (24, 96), "i1")
    args = [np.zeros((16, 24), "i4"), a, bt, 24, 96]
    want = a.astype("i4") @ bt.astype("i4").T
    clean("matmul.cu", "mma_int8", (3,), (32,), args, {0: want})


def test_dot_products_of_bytes() -> None:
    a, b = rng().integers(-128, 128, (5, 172), "i1"), rng().integers(-128, 128, 172, "i1")
    want = a.astype("i4") @ b.astype("i4")
    clean("matmul.cu", "dp4a_rows", (5,), (32,), [np.zeros(5, "i4"), a, b, 43], {0: want})


# --- Groups and barriers ----------------------------------------------------------------


def test_tiled_groups() -> None:
    x = normal(333)
    want = [x[at : at + 128].sum() for at in (0, 128, 256)]
    clean("cooperative.cu", "tiled_groups", (3,), (128,), [unset(3), x, 333], {0: want}, 1e-4)


def test_coalesced_group() -> None:
    x = rng().integers(0, 99, 155, "i4")
    want = (x % 3 == 0).sum()
    clean("cooperative.cu", "coalesced", (3,), (64,), [np.zeros(1, "i4"), x, 155], {0: want})


def test_teams_with_barriers_of_their_own() -> None:
    x = normal(128)
    teams = x.reshape(2, 2, 32)
    want = teams - teams[:, ::-1] * np.array([1, 3], "f4")[:, None, None]
    clean("cooperative.cu", "teams", (1,), (128,), [unset(128), x], {0: want})


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("defines", [{}, {"REGISTERS": 1}])
def test_producer_and_consumer(steps: int, defines: dict[str, object]) -> None:
    x = normal(steps, 32)
    want = 2 * x.sum(0)[np.arange(32) ^ 5]
    args, expect = [unset(32), x, steps], {0: want}
    clean("cooperative.cu", "producer_consumer", (1,), (64,), args, expect, defines=defines)
