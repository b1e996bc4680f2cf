"""tilewright.matmul on NumPy arrays: numpy.matmul's results, the formula, out, and refusals."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import tilewright
from tilewright.errors import InputError
from tilewright.gemm.epilogue import Expression, Residual, Scale, Softcap
from tilewright.gemm.product import Matmul

from .conftest import random
from .test_shapes import FIT

pytestmark = pytest.mark.usefixtures("naive")
BF16 = ml_dtypes.bfloat16


def matmul(*args: Any, **options: Any) -> Any:
    return tilewright.matmul(*args, engine="emulator", **options)


@pytest.mark.parametrize(("a", "b"), FIT)
def test_results_are_numpys(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left, right = random(1, *a), random(2, *b)
    got = matmul(left, right)
    want = np.matmul(left, right)
    assert (np.shape(got), got.dtype) == (np.shape(want), want.dtype)
    assert (got == want).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
def test_views_of_any_strides(dtype: Any) -> None:
    """Gaps, both directions, repeated rows, neither stride 1 (ALN-10, ALN-11, INT-02)."""
    flat = random(3, 400, dtype=dtype)
    lefts = [
        flat[:40].reshape(4, 10)[::2, :8], flat[:40].reshape(4, 10)[::-1, 1::2],
        flat[:80].reshape(4, 10, 2)[:3, :, 1], np.broadcast_to(flat[:6], (5, 6)),
        np.broadcast_to(flat[:5, None], (5, 6)), flat[7:31].reshape(6, 4).T, flat[:12][None, ::-3],
        as_strided(flat[9:], (3, 4), (2 * flat.itemsize, flat.itemsize)),  # a window that slides
    ]  # fmt: skip
    for left in lefts:
        right = flat[100 : 100 + 3 * left.shape[1]].reshape(left.shape[1], 3)
        got = matmul(left, right, out_dtype=np.float32)
        assert (got == left.astype(np.float32) @ right.astype(np.float32)).all()


def test_every_alignment_of_every_operand() -> None:
    """Faults ALN-05 and ALN-06."""
    flat = random(4, 200, dtype=BF16)
    wide = flat.astype(np.float32)
    for lead in range(8):
        a, b = flat[lead : lead + 24].reshape(4, 6), flat[40 - lead : 70 - lead].reshape(6, 5)
        bias, out = flat[lead + 80 : lead + 85], np.zeros(40, BF16)[lead : lead + 20].reshape(4, 5)
        assert matmul(a, b, bias=bias, out=out) is out
        want = a.astype(np.float32) @ b.astype(np.float32) + wide[lead + 80 : lead + 85]
        assert (out == want.astype(BF16)).all()


def test_the_formula() -> None:
    a, b, c, bias, residual = (
        random(seed, *shape) for seed, shape in enumerate([(5, 6), (6, 4), (5, 4), (4,), (5, 4)])
    )
    scale = np.array([0.5, 2, 4, 0.25], np.float32)
    got = matmul(
        a, b, c=c, alpha=2, beta=-0.5, bias=bias, activation="relu", epilogue=Scale(scale),
        residual=residual,
    )  # fmt: skip
    want = residual + scale * np.maximum(2 * (a @ b) - 0.5 * c + bias, 0)
    assert (got == want).all()


def test_one_rounding() -> None:
    """alpha·AB + beta·C is rounded once, not once each (NUM-06)."""
    a, b = np.array([[255.0]], BF16), np.array([[1.0]], BF16)
    c = np.array([[1 / 256 + 1]], np.float32)
    got = matmul(a, b, c=c, beta=1)
    assert got.dtype == BF16
    assert got == np.float32(255 + 1 + 1 / 256).astype(BF16)


def test_a_bias_along_rows_and_along_columns_of_a_square() -> None:
    a, b, bias = random(1, 4, 3), random(2, 3, 4), np.arange(1, 5, dtype=np.float32)
    assert (matmul(a, b, bias=bias) == a @ b + bias).all()
    assert (matmul(a, b, bias=bias[:, None]) == a @ b + bias[:, None]).all()


def test_a_gate_takes_pairs_of_columns() -> None:
    """The gate's columns come first, and bias and c are added before it (EPI-04)."""
    a, b, c, bias = random(1, 3, 5), random(2, 5, 8), random(3, 3, 8), random(4, 8)
    x = a @ b + c + bias
    got = matmul(a, b, c=c, beta=1, bias=bias, activation="reglu", residual=random(5, 3, 4))
    assert (got == random(5, 3, 4) + np.maximum(x[:, :4], 0) * x[:, 4:]).all()


def test_parts_of_the_epilogue_stand_behind_the_activation() -> None:
    a, b = random(1, 3, 5), random(2, 5, 4)
    rows = np.array([[2], [3], [4]], np.float32)
    parts: list[Any] = [Scale(rows), Expression("x + 1"), Residual(random(3, 4))]
    for chain in (parts, parts[0] >> parts[1] >> parts[2], (parts[0], parts[1:])):
        got = matmul(a, b, activation="relu", epilogue=chain)
        assert (got == np.maximum(a @ b, 0) * rows + 1 + random(3, 4)).all()
    capped = matmul(a, b, epilogue=Softcap(2.0))
    assert np.abs(capped - 2 * np.tanh((a @ b) / 2)).max() < 1e-5


def test_beta_0_does_not_read_c() -> None:
    """Faults DEG-02, DEG-03 and DEG-10: not even where its type is none that kernels take."""
    a, b = random(1, 3, 5), random(2, 5, 4)
    assert (matmul(a, b, c=np.full((3, 4), np.nan)) == a @ b).all()
    assert (matmul(a, b, c="anything", beta=0.0) == a @ b).all()


def test_nan_goes_through() -> None:
    """EPI-01; 0·NaN is NaN, also where alpha is the 0."""
    a, b = random(1, 3, 5), random(2, 5, 4)
    a[1, 2] = np.nan
    assert np.isnan(matmul(a, b, activation="relu")[1]).all()
    assert np.isnan(matmul(a, b, alpha=0.0)[1]).all()
    assert (matmul(a, b, alpha=0.0)[0] == 0).all()


@pytest.mark.parametrize("alpha", [1, -2.5, 0])
@pytest.mark.parametrize("beta", [0, 1, -0.5])
def test_products_of_nothing(alpha: float, beta: float) -> None:
    """K = 0: beta·C and what follows, and C's NaN only with beta (DEG-04 and DEG-06)."""
    a, b, c, bias = np.ones((3, 0)), np.ones((0, 4)), random(3, 3, 4), random(4, 4)
    c[2, 1] = np.nan
    a, b = a.astype(np.float32), b.astype(np.float32)
    got = matmul(a, b, c=c, alpha=alpha, beta=beta, bias=bias)
    want = (beta * c if beta else np.zeros((3, 4))) + bias
    assert np.array_equal(got, want, equal_nan=True)


@pytest.mark.parametrize(("a", "b"), [((0, 3), (3, 4)), ((2, 3), (3, 0)), ((0, 2, 3), (3, 4))])
def test_results_without_elements_launch_nothing(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Fault DEG-08."""
    product = Matmul(random(1, *a), random(2, *b), engine="emulator")
    assert product.execute().size == 0
    assert product.reports == []
    with pytest.raises(InputError, match="nothing is computed"):
        product.plan()


def test_all_small_extents() -> None:
    """Fault DEG-12."""
    for m, n, k in np.ndindex(2, 2, 2):
        a, b = random(1, m + 1, k + 1), random(2, k + 1, n + 1)
        for left in (a, np.asfortranarray(a)):
            for right in (b, np.asfortranarray(b)):
                assert (matmul(left, right, activation="relu") == np.maximum(a @ b, 0)).all()


# --- out -----------------------------------------------------------------------------------------


def test_out_gets_the_result_and_nothing_else_changes() -> None:
    a, b = random(1, 4, 3, dtype=np.float16), random(2, 3, 5, dtype=np.float16)
    places: list[Any] = [
        np.s_[:4, 1:11:2], np.s_[3::-1, :5], np.s_[4:8, 9:4:-1], np.s_[::5, ::4],
    ]  # fmt: skip
    for place in places:
        for whole in (np.full((20, 20), 77, np.float32), np.full((20, 20), 77, np.float32).T):
            out = whole[place]
            assert matmul(a, b, out=out) is out
            assert (out == a.astype(np.float32) @ b.astype(np.float32)).all()
            out[...] = 77
            assert (whole == 77).all()


def test_out_that_overlaps_an_operand() -> None:
    """Fault ALN-20: wholly, in part, and by an interleaved view."""
    whole = random(1, 12, 10)
    for out in (whole[:4, :4], whole[1:5, 2:6], whole[4:8, :4][::-1], whole[:4, 1:9:2]):
        memory = whole.copy()
        a, b = memory[:4, :4], memory[2:6, 4:8]
        start = (out.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // 4
        target = as_strided(memory.reshape(-1)[start:], out.shape, out.strides)
        want = a @ b
        assert (matmul(a, b, out=target) == want).all()
        assert (target == want).all()


def test_a_whole_batch_over_itself() -> None:
    a = np.ones((2, 33, 33), np.float32)
    assert (matmul(a, a, out=a) == 33).all()


def test_accumulating_in_place_is_no_overlap() -> None:
    c, a, b = random(1, 3, 4), random(2, 3, 5), random(3, 5, 4)
    want = c + a @ b
    product = Matmul(a, b, c=c, beta=1, out=c, engine="emulator")
    assert product.execute() is c
    assert (c == want).all()
    product.execute()  # the arrays are read anew
    assert (c == want + a @ b).all()


@pytest.mark.parametrize(
    ("out", "said"),
    [
        (np.zeros((3, 5), np.float32), "out has the shape (3, 5), and the result (3, 4)"),
        (np.zeros((1, 3, 4), np.float32), "out has the shape (1, 3, 4), and the result (3, 4)"),
        (as_strided(np.zeros(4, np.float32), (3, 4), (0, 4)), "would share one place"),
        (np.zeros((3, 4), np.int32), "out is int32; matmul takes bf16, fp16 and fp32"),
        (np.zeros((3, 9), np.uint8)[:, 1:].view(np.float16), "out lies between the places"),
    ],
)
def test_outs_that_are_refused(out: Any, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        matmul(random(1, 3, 2), random(2, 2, 4), out=out)


def test_threads_do_not_meet() -> None:
    def work(seed: int) -> bool:
        a, b = random(seed, 9, 5), random(seed + 50, 5, 7)
        return all((matmul(a, b) == a @ b).all() for _ in range(5))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


# --- Refusals ------------------------------------------------------------------------------------

A, B = random(1, 3, 4), random(2, 4, 5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"b": random(2, 5, 3)}, "b has 5 rows and a has 4 columns"),
        ({"a": A.astype(np.float64)}, "a is float64; matmul takes bf16, fp16 and fp32"),
        ({"b": B.astype(np.complex64)}, "b is complex64; matmul takes bf16, fp16 and fp32"),
        ({"a": A.astype(np.int8)}, "convert it, as by a.astype(np.float32)"),
        ({"b": B.astype(np.float16)}, "a is fp32 and b is fp16"),
        ({"a": A.astype(">f4")}, "a has the other byte order"),
        ({"a": [[1.0]]}, "a is a list; give an array"),
        ({"bias": np.ones(4, np.float32)}, "bias has the shape (4,), which does not broadcast"),
        ({"bias": np.ones(5)}, "bias is float64"),
        ({"c": np.ones((5, 3), np.float32), "beta": 1}, "c has the shape (5, 3)"),
        ({"residual": np.ones(3, np.float32)}, "residual has the shape (3,)"),
        ({"beta": 2}, "beta=2 scales c, and c is not given"),
        ({"alpha": 1j}, "alpha=1j must be a real number"),
        ({"alpha": "x"}, "alpha='x' must be a real number"),
        ({"activation": "mish"}, "activation='mish' is not known; use relu"),
        ({"activation": "swiglu"}, "b has 5 columns, and a gate takes pairs"),
        ({"epilogue": "x + 1"}, "epilogue has 'x + 1'; give parts"),
        ({"epilogue": Softcap}, "give parts of tilewright.gemm.epilogue"),
        ({"epilogue": [Scale(np.ones(4, np.float32))]}, "scale has the shape (4,)"),
        ({"epilogue": [Scale(A), Scale(A)]}, "two operands are called 'scale'"),
        ({"out_dtype": np.float64}, "out_dtype is float64"),
        ({"out_dtype": np.float16, "out": np.zeros((3, 5), np.float32)}, "out_dtype is fp16 and"),
        ({"precision": "tf32"}, "precision='tf32' is not taken yet"),
        ({"precision": "fp8"}, "precision='fp8' is not known"),
        ({"tune": "always"}, "tune='always' is not known; use off or once"),
        ({"engine": "cpu"}, "engine='cpu' is not known"),
        ({"stream": object()}, "is no stream"),
    ],
)
def test_refusals_name_the_argument(given: dict[str, Any], said: str) -> None:
    options = {"engine": "emulator", **given}
    a, b = options.pop("a", A), options.pop("b", B)
    with pytest.raises(InputError, match=re.escape(said)):
        tilewright.matmul(a, b, **options)


def test_tuning_needs_a_clock() -> None:
    with pytest.raises(InputError, match="the emulator, which has no clock"):
        Matmul(A, B, engine="emulator").tune()
    assert (matmul(A, B, tune="once") == A @ B).all()


# --- linear --------------------------------------------------------------------------------------


def test_linear_is_x_times_weight_transposed() -> None:
    """Also with an empty batch (DEG-09), and in one launch whatever the batch is."""
    weight, bias = random(1, 6, 5), random(2, 6)
    for shape in ((5,), (3, 5), (2, 3, 5), (0, 5), (3, 0, 5)):
        x = random(3, *shape)
        got = tilewright.linear(x, weight, bias, "relu", engine="emulator")
        assert (got == np.maximum(x @ weight.T + bias, 0)).all()
        assert got.shape == (*shape[:-1], 6)


@pytest.mark.parametrize(
    ("x", "weight", "said"),
    [
        ((3, 4), (6, 5), "weight has 5 columns and x has 4"),
        ((3, 4), (4,), "weight has the shape (4,); it must have two dimensions"),
        ((), (6, 5), "x has no dimensions"),
    ],
)
def test_linear_names_its_own_arguments(
    x: tuple[int, ...], weight: tuple[int, ...], said: str
) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        tilewright.linear(random(1, *x), random(2, *weight), engine="emulator")
