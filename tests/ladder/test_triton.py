"""The triton family: right at every edge, for every stride and type.

Where there is no GPU it runs in Triton's interpreter; where triton or torch is missing these
tests are skipped, and tests/bench/test_interpreted.py says what the ladder does then.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.dtypes import DTYPES, FP16, FP32, DType
from tilewright.engines.probe import gpus_found
from tilewright.ladder.python_rungs import TRITON, TritonRung
from tilewright.verify import judge, oracle, random_operands

ABSENT = [name for name in ("triton", "torch") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(ABSENT), reason=f"{' and '.join(ABSENT)} not installed"),
    pytest.mark.filterwarnings("default"),  # of torch and triton when they are imported
]

Array = npt.NDArray[Any]
Multiply = Callable[[TritonRung, Array, Array, Array], None]

# One element, one row, columns and depths below, at and above tiles of 64 and 128.
SHAPES = [(1, 1, 1), (1, 130, 17), (17, 1, 130), (130, 17, 1), (33, 129, 65), (257, 300, 70)]

rungs = pytest.mark.parametrize("rung", TRITON, ids=lambda rung: rung.name)


@pytest.fixture(scope="module")
def multiply() -> Iterator[Multiply]:
    """Runs a rung on NumPy arrays, in place: views of whatever strides stay such views."""
    with pytest.MonkeyPatch.context() as patch:
        if not gpus_found():
            patch.setenv("TRITON_INTERPRET", "1")
        torch: Any = importlib.import_module("torch")
        device = "cuda" if gpus_found() else "cpu"

        def run(rung: TritonRung, *arrays: Array) -> None:
            tensors = [_tensor(torch, array, device) for array in arrays]
            rung.gemm(*(tensor for tensor, _ in tensors))
            _, whole = tensors[2]
            back = whole.cpu().view(torch.uint8).numpy()
            root = _root(arrays[2])
            root.reshape(-1).view(np.uint8)[...] = back.reshape(-1)

        yield run


def _root(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _tensor(torch: Any, array: Array, device: str) -> tuple[Any, Any]:
    """A tensor with the strides of the array, and all of the memory that it is a view of."""
    root = _root(array)
    kinds = {"float16": torch.float16, "float32": torch.float32, "bfloat16": torch.bfloat16}
    flat = torch.from_numpy(root.reshape(-1).view(np.uint8).copy()).to(device)
    whole = flat.view(kinds[array.dtype.name])
    at = (array.ctypes.data - root.ctypes.data) // array.itemsize
    strides = [step // array.itemsize for step in array.strides]
    return torch.as_strided(whole, array.shape, strides, at), whole


def poisoned(shape: tuple[int, int], dtype: DType) -> Array:
    out = np.empty(shape, dtype.numpy())
    out.view(np.uint8).fill(0xFF)
    return out


def types() -> list[DType]:
    """In the interpreter, which knows no bf16, the ladder hands it over as fp32."""
    return list(DTYPES.values()) if gpus_found() else [FP16, FP32]


@rungs
@pytest.mark.parametrize("dtype", types(), ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape_and_type(
    multiply: Multiply, rung: TritonRung, dtype: DType, shape: tuple[int, int, int]
) -> None:
    a, b = random_operands(*shape, dtype, seed=2)
    c = poisoned((shape[0], shape[1]), dtype)
    multiply(rung, a, b, c)
    verdict = judge(c, oracle(a, b, dtype))
    assert verdict.correct, verdict.message


@rungs
@pytest.mark.parametrize("extent", ["m", "n", "k"])
@pytest.mark.parametrize("value", [1, 17, 127, 128, 129, 130])
def test_each_edge_alone(multiply: Multiply, rung: TritonRung, extent: str, value: int) -> None:
    """The other two extents are whole tiles; around A, B and C lies NaN, which nothing may read,
    and what lies around C stays."""
    m, n, k = ({"m": 128, "n": 256, "k": 64} | {extent: value}).values()
    a, b = (_framed(array) for array in random_operands(m, n, k, FP32, seed=3))
    frame = poisoned((m + 2, n + 2), FP32)
    c = frame[1:-1, 1:-1]
    multiply(rung, a, b, c)
    verdict = judge(c, oracle(a, b, FP32))
    assert verdict.correct, verdict.message
    assert np.isnan(frame).sum() == frame.size - m * n


def _framed(array: Array) -> Array:
    frame = poisoned((array.shape[0] + 2, array.shape[1] + 2), FP32)
    frame[1:-1, 1:-1] = array
    return frame[1:-1, 1:-1]


@rungs
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_rows_or_columns_in_memory(multiply: Multiply, rung: TritonRung, layout: str) -> None:
    a, b = random_operands(67, 130, 33, FP16, seed=4)
    a, b = (
        np.ascontiguousarray(array.T).T if letter == "t" else array
        for array, letter in zip((a, b), layout, strict=True)
    )
    c = poisoned((130, 67), FP16).T
    multiply(rung, a, b, c)
    verdict = judge(c, oracle(a, b, FP16))
    assert verdict.correct, verdict.message


@rungs
def test_any_strides(multiply: Multiply, rung: TritonRung) -> None:
    """Every second row and third column, C's too; what lies between is left alone."""
    a, b = random_operands(37, 45, 29, FP32, seed=5)
    wide_a, wide_b, wide_c = (
        poisoned((2 * rows, 3 * columns), FP32) for rows, columns in ((37, 29), (29, 45), (37, 45))
    )
    wide_a[::2, ::3], wide_b[1::2, 1::3] = a, b
    c = wide_c[1::2, 2::3]
    multiply(rung, wide_a[::2, ::3], wide_b[1::2, 1::3], c)
    verdict = judge(c, oracle(a, b, FP32))
    assert verdict.correct, verdict.message
    assert np.isnan(wide_c).sum() == wide_c.size - c.size


@rungs
def test_fp32_stays_fp32(multiply: Multiply, rung: TritonRung) -> None:
    """TF32 has 10 bits behind the point: it would lose the last of these."""
    a = np.full((3, 5), 1 + 2.0**-20, np.float32)
    c = poisoned((3, 2), FP32)
    multiply(rung, a, np.ones((5, 2), np.float32), c)
    np.testing.assert_array_equal(c, np.full((3, 2), 5 * (1 + 2.0**-20), np.float32))


@rungs
def test_sums_are_in_fp32(multiply: Multiply, rung: TritonRung) -> None:
    """A sum of halves in fp16 stops at 1024, beyond which it has no halves."""
    a = np.ones((1, 4096), np.float16)
    c = poisoned((1, 1), FP16)
    multiply(rung, a, np.full((4096, 1), 0.5, np.float16), c)
    assert c[0, 0] == 2048
