from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tilewright.bench import cublas, peers
from tilewright.dtypes import BF16, FP16, FP32, DType
from tilewright.errors import EngineError, InputError

if TYPE_CHECKING:
    import numpy.typing as npt

M, N, K = 48, 80, 112
LAYOUTS = ("nn", "nt", "tn", "tt")


@dataclass(frozen=True)
class Problem:
    m: int = M
    n: int = N
    k: int = K
    layout: str = "nn"
    dtype: DType = FP16


def operands(layout: str, dtype: DType) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """A and B as they lie in memory."""
    rng = np.random.default_rng(5)
    shapes = peers.stored_shapes(Problem(layout=layout, dtype=dtype))
    a, b = (rng.standard_normal(shape).astype(dtype.numpy()) for shape in shapes[:2])
    return a, b


def product(a: npt.NDArray[Any], b: npt.NDArray[Any], layout: str) -> npt.NDArray[np.float64]:
    left, right = a.astype(np.float64), b.astype(np.float64)
    result = (left.T if layout[0] == "t" else left) @ (right.T if layout[1] == "t" else right)
    return np.asarray(result)


def column_major(
    memory: npt.NDArray[Any], rows: int, columns: int, ld: int
) -> npt.NDArray[np.float64]:
    """The rows × columns matrix that a column-major library sees in this memory."""
    flat = memory.reshape(-1).astype(np.float64)
    return np.array([[flat[i + j * ld] for j in range(columns)] for i in range(rows)])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_column_major_call_computes_the_row_major_product(layout: str) -> None:
    a, b = operands(layout, FP16)
    call = cublas.column_major_call(M, N, K, layout)
    shapes = (call.m, call.k), (call.k, call.n)
    first_shape = shapes[0][::-1] if call.transpose_first else shapes[0]
    second_shape = shapes[1][::-1] if call.transpose_second else shapes[1]
    first = column_major(b, *first_shape, call.ld_first)
    second = column_major(a, *second_shape, call.ld_second)
    out = (first.T if call.transpose_first else first) @ (
        second.T if call.transpose_second else second
    )
    memory = np.full(M * N, np.nan)
    for row in range(call.m):
        for column in range(call.n):
            memory[row + column * call.ld_c] = out[row, column]
    np.testing.assert_allclose(memory.reshape(M, N), product(a, b, layout), rtol=1e-12)


def test_the_nn_call_swaps_operands_and_extents() -> None:
    assert cublas.column_major_call(3, 5, 7, "nn") == cublas.ColumnMajorCall(
        False, False, m=5, n=3, k=7, ld_first=5, ld_second=7, ld_c=5
    )


def test_an_unknown_layout_raises() -> None:
    with pytest.raises(InputError, match="layout='row' must be one of nn, nt, tn, tt"):
        cublas.column_major_call(3, 5, 7, "row")


@pytest.mark.parametrize(("number", "text"), [(130100, "13.1.0"), (120803, "12.8.3")])
def test_cublas_version(number: int, text: str) -> None:
    assert cublas.cublas_version(number) == text


class FakeBuffer:
    def __init__(self, address: int) -> None:
        self.address = address
        self.shape: tuple[int, ...] = (1,)
        self.dtype = np.dtype("u1")


class FakeEngine:
    ordinal = 1
    stream = 77
    context = SimpleNamespace(enter=lambda: None)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> FakeBuffer:
        assert shape == (32 * 2**20,)
        return FakeBuffer(4096)


class FakeCublas:
    """Notes each call and the plain values of its arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.status = 0

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> int:
            plain = tuple(getattr(arg, "value", "ref") for arg in args)
            self.calls.append((name, plain))
            if name == "cublasGetVersion_v2":
                args[1]._obj.value = 130100
            return self.status

        return call


def buffers(*addresses: int) -> list[FakeBuffer]:
    return [FakeBuffer(address) for address in addresses]


def test_cublas_gets_stream_before_workspace_and_swapped_operands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = FakeCublas()
    monkeypatch.setattr(cublas, "load", lambda name: library)
    peer = cublas.hgemm_cublas(FakeEngine())  # type: ignore[arg-type]
    assert peer.name == "hgemm_cublas"
    names = [name for name, _ in library.calls]
    assert names.index("cublasSetStream_v2") < names.index("cublasSetWorkspace_v2")
    assert library.calls[-1][1] == (None, 4096, 32 * 2**20)
    bound = peer.bind(buffers(10), buffers(20), buffers(30), Problem(layout="nt", dtype=BF16))
    assert bound.version == "13.1.0"
    bound.enqueue(4)
    assert library.calls[-1] == (
        "cublasGemmEx",
        (None, 1, 0, N, M, K, "ref", 20, 14, K, 10, 14, K, "ref", 30, 14, N, 68, -1),
    )
    library.status = 7
    with pytest.raises(EngineError, match="cublasGemmEx failed with cublasStatus_t 7"):
        peer.bind(buffers(1), buffers(2), buffers(3), Problem()).enqueue(0)


def test_fp32_goes_to_a_peer_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA_R_32F is 0, and CUBLAS_COMPUTE_32F without a math mode uses no TF32."""
    library = FakeCublas()
    monkeypatch.setattr(cublas, "load", lambda name: library)
    peer = cublas.sgemm_cublas(FakeEngine())  # type: ignore[arg-type]
    assert peer.name == "sgemm_cublas"
    peer.bind(buffers(10), buffers(20), buffers(30), Problem(dtype=FP32)).enqueue(0)
    assert library.calls[-1] == (
        "cublasGemmEx",
        (None, 0, 0, N, M, K, "ref", 20, 0, N, 10, 0, K, "ref", 30, 0, N, 68, -1),
    )
    assert "cublasSetMathMode" not in {name for name, _ in library.calls}
    with pytest.raises(InputError, match="sgemm_cublas is no peer for dtype=bf16"):
        peer.bind(buffers(1), buffers(2), buffers(3), Problem(dtype=BF16))


def test_a_library_that_cannot_be_loaded_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib,
        "import_module",
        lambda name: SimpleNamespace(
            load_nvidia_dynamic_lib=lambda name: SimpleNamespace(abs_path="/nowhere/libcublas.so")
        ),
    )
    with pytest.raises(EngineError, match="libcublas cannot be loaded"):
        cublas.load("cublas")
