from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tilewright import dtypes
from tilewright.bench import peers
from tilewright.dtypes import BF16, FP16, FP32, DType
from tilewright.engines import probe
from tilewright.errors import EngineError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    call = peers.column_major_call(M, N, K, layout)
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
    assert peers.column_major_call(3, 5, 7, "nn") == peers.ColumnMajorCall(
        False, False, m=5, n=3, k=7, ld_first=5, ld_second=7, ld_c=5
    )


def test_an_unknown_layout_raises() -> None:
    with pytest.raises(InputError, match="layout='row' must be one of nn, nt, tn, tt"):
        peers.column_major_call(3, 5, 7, "row")
    with pytest.raises(InputError, match="layout='n'"):
        peers.stored_shapes(Problem(layout="n"))


@pytest.mark.parametrize(("number", "text"), [(130100, "13.1.0"), (120803, "12.8.3")])
def test_cublas_version(number: int, text: str) -> None:
    assert peers.cublas_version(number) == text


# --- Without a GPU ------------------------------------------------------------------------


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


class FakeTensor:
    def __init__(self, address: int, note: tuple[Any, ...]) -> None:
        self.address = address
        self.note = note

    def data_ptr(self) -> int:
        return self.address

    def view(self, dtype: str) -> FakeTensor:
        return FakeTensor(self.address, (*self.note, dtype))

    def t(self) -> FakeTensor:
        return FakeTensor(self.address, (*self.note, "t"))


class FakeTorch(SimpleNamespace):
    """As much of torch as the peer uses; `log` holds the products in order."""

    def __init__(self, gpu: bool = True, copies: bool = False) -> None:
        super().__init__(__version__="2.11.0", float16="half", bfloat16="bf")
        self.log: list[Any] = []
        self.streams: list[Any] = []
        self.copies = copies
        self.cuda = SimpleNamespace(
            is_available=lambda: gpu,
            init=lambda: None,
            ExternalStream=lambda handle, device: (handle, device),
            stream=self._stream,
        )

    @contextlib.contextmanager
    def _stream(self, stream: Any) -> Iterator[None]:
        self.streams.append(stream)
        yield

    def as_tensor(self, words: Any, device: str) -> FakeTensor:
        interface = words.__cuda_array_interface__
        assert device == "cuda:1"
        assert interface["typestr"] == "<i2"
        address = interface["data"][0]
        return FakeTensor(address + self.copies, (interface["shape"],))

    def mm(self, a: FakeTensor, b: FakeTensor, out: FakeTensor) -> None:
        self.log.append((a.address, a.note, b.address, b.note, out.address, out.note))


def with_torch(monkeypatch: pytest.MonkeyPatch, torch: Any) -> None:
    real = importlib.import_module
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(
        importlib, "import_module", lambda name: torch if name == "torch" else real(name)
    )


def buffers(*addresses: int) -> list[FakeBuffer]:
    return [FakeBuffer(address) for address in addresses]


def test_torch_multiplies_in_our_memory_on_our_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = FakeTorch()
    with_torch(monkeypatch, torch)
    peer = peers.TorchPeer(FakeEngine())  # type: ignore[arg-type]
    enqueue = peer.bind(
        buffers(10, 11), buffers(20, 21), buffers(30), Problem(layout="nt", dtype=BF16)
    )
    enqueue(0)
    enqueue(3)
    assert torch.log == [
        (10, ((M, K), "bf"), 20, ((N, K), "bf", "t"), 30, ((M, N), "bf")),
        (11, ((M, K), "bf"), 21, ((N, K), "bf", "t"), 30, ((M, N), "bf")),
    ]
    assert torch.streams == [(77, "cuda:1")] * 2
    assert (peer.name, peer.version) == ("torch", "2.11.0")


def test_torch_may_not_copy_and_takes_half_types_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with_torch(monkeypatch, FakeTorch(copies=True))
    peer = peers.TorchPeer(FakeEngine())  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="copied a buffer"):
        peer.bind(buffers(1), buffers(2), buffers(3), Problem())
    with_torch(monkeypatch, FakeTorch())
    peer = peers.TorchPeer(FakeEngine())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="dtype=fp32 has no peer"):
        peer.bind(buffers(1), buffers(2), buffers(3), Problem(dtype=FP32))


def test_cublas_gets_stream_before_workspace_and_swapped_operands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = FakeCublas()
    monkeypatch.setattr(peers, "_load_cublas", lambda: library)
    peer = peers.CublasPeer(FakeEngine())  # type: ignore[arg-type]
    assert (peer.name, peer.version) == ("hgemm_cublas", "13.1.0")
    names = [name for name, _ in library.calls]
    assert names.index("cublasSetStream_v2") < names.index("cublasSetWorkspace_v2")
    assert library.calls[-1][1] == (None, 4096, 32 * 2**20)
    peer.bind(buffers(10), buffers(20), buffers(30), Problem(layout="nt", dtype=BF16))(4)
    assert library.calls[-1] == (
        "cublasGemmEx",
        (None, 1, 0, N, M, K, "ref", 20, 14, K, 10, 14, K, "ref", 30, 14, N, 68, -1),
    )
    library.status = 7
    with pytest.raises(EngineError, match="cublasGemmEx failed with cublasStatus_t 7"):
        peer.bind(buffers(1), buffers(2), buffers(3), Problem())(0)


def test_missing_peers_are_left_out_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(importlib, "import_module", no_library)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    found, reasons = peers.found_peers(FakeEngine())  # type: ignore[arg-type]
    assert found == []
    assert reasons == [
        "torch is left out: it is not installed: pip install 'tilewright[torch]'.",
        "hgemm_cublas is left out: libcublas was not found: pip install nvidia-cublas.",
    ]


def test_torch_without_a_gpu_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with_torch(monkeypatch, FakeTorch(gpu=False))
    with pytest.raises(EngineError, match=r"torch 2\.11\.0 sees no GPU"):
        peers.TorchPeer(FakeEngine())  # type: ignore[arg-type]


def test_a_library_that_cannot_be_loaded_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib,
        "import_module",
        lambda name: SimpleNamespace(
            load_nvidia_dynamic_lib=lambda name: SimpleNamespace(abs_path="/nowhere/libcublas.so")
        ),
    )
    with pytest.raises(EngineError, match="libcublas cannot be loaded"):
        peers._load_cublas()


# --- On a GPU -----------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(probe.gpu_problem() is not None, reason=str(probe.gpu_problem()))
@pytest.mark.parametrize("dtype", [FP16, BF16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_peers_compute_the_product(layout: str, dtype: DType) -> None:
    from tilewright.engines.gpu import GpuEngine

    engine = GpuEngine()
    found, reasons = peers.found_peers(engine)
    if not found:
        pytest.skip(" ".join(reasons))
    a, b = operands(layout, dtype)
    reference = product(a, b, layout)
    on_a, on_b = engine.upload(a), engine.upload(b)
    for peer in found:
        c = engine.empty((M, N), dtypes.dtype_of(dtype.name).numpy())
        enqueue = peer.bind([on_a], [on_b], [c], Problem(layout=layout, dtype=dtype))
        enqueue(0)
        result = engine.download(c).astype(np.float64)
        error = np.linalg.norm(result - reference) / np.linalg.norm(reference)
        assert error < 5e-3, f"{peer.name}: {error}"  # NaN fails too
        engine.refill(c)
        graph = engine.capture(lambda enqueue=enqueue: enqueue(0))  # type: ignore[misc]
        graph.replay()
        again = engine.download(c).astype(np.float64)
        np.testing.assert_array_equal(again, result)
