from __future__ import annotations

import contextlib
import importlib
import importlib.util
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tilewright.bench import torch_peers
from tilewright.dtypes import BF16, FP16, FP32, DType
from tilewright.errors import EngineError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

M, N, K = 48, 80, 112
E4M3 = DType("e4m3", 1, 2.0**-4, 2.0**-9, 448.0)  # a type that no peer knows


@dataclass(frozen=True)
class Problem:
    m: int = M
    n: int = N
    k: int = K
    layout: str = "nn"
    dtype: DType = FP16


class FakeBuffer:
    def __init__(self, address: int) -> None:
        self.address = address
        self.shape: tuple[int, ...] = (1,)
        self.dtype = np.dtype("u1")


class FakeEngine:
    ordinal = 1
    stream = 77


class FakeTensor:
    def __init__(self, address: int, note: tuple[Any, ...]) -> None:
        self.address = address
        self.note = note
        self.copied_to: list[int] = []

    @property
    def shape(self) -> Any:
        return self.note[0]

    @property
    def dtype(self) -> Any:
        return self.note[1]

    def copy_(self, other: FakeTensor) -> None:
        other.copied_to.append(self.address)

    def data_ptr(self) -> int:
        return self.address

    def view(self, dtype: str) -> FakeTensor:
        return FakeTensor(self.address, (*self.note, dtype))

    def t(self) -> FakeTensor:
        return FakeTensor(self.address, (*self.note, "t"))


class FakeTorch(SimpleNamespace):
    """As much of torch as the peer uses; `log` holds the products in order."""

    def __init__(self, gpu: bool = True, copies: bool = False) -> None:
        super().__init__(__version__="2.11.0", float16="half", bfloat16="bf", float32="single")
        self.log: list[Any] = []
        self.words: list[str] = []  # the types in which buffers are handed over
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
        self.words.append(interface["typestr"])
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
    peer = torch_peers.TorchPeer(FakeEngine())  # type: ignore[arg-type]
    bound = peer.bind(
        buffers(10, 11), buffers(20, 21), buffers(30), Problem(layout="nt", dtype=BF16)
    )
    bound.enqueue(0)
    bound.enqueue(3)
    assert torch.log == [
        (10, ((M, K), "bf"), 20, ((N, K), "bf", "t"), 30, ((M, N), "bf")),
        (11, ((M, K), "bf"), 21, ((N, K), "bf", "t"), 30, ((M, N), "bf")),
    ]
    assert torch.streams == [(77, "cuda:1")] * 2
    assert set(torch.words) == {"<i2"}
    assert (peer.name, bound.version, bound.deliver) == ("torch", "2.11.0", None)


def test_torch_may_not_copy_and_takes_known_types_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with_torch(monkeypatch, FakeTorch(copies=True))
    peer = torch_peers.TorchPeer(FakeEngine())  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="copied a buffer"):
        peer.bind(buffers(1), buffers(2), buffers(3), Problem())
    with_torch(monkeypatch, FakeTorch())
    peer = torch_peers.TorchPeer(FakeEngine())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="dtype=e4m3 has no peer"):
        peer.bind(buffers(1), buffers(2), buffers(3), Problem(dtype=E4M3))


def test_fp32_is_multiplied_without_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = FakeTorch()
    torch.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True)))
    with_torch(monkeypatch, torch)
    peer = torch_peers.TorchPeer(FakeEngine())  # type: ignore[arg-type]
    peer.bind(buffers(1), buffers(2), buffers(3), Problem(dtype=FP32)).enqueue(0)
    assert torch.backends.cuda.matmul.allow_tf32 is False
    assert torch.log == [(1, ((M, K), "single"), 2, ((K, N), "single"), 3, ((M, N), "single"))]
    assert torch.words == ["<i4"] * 3


def test_torch_without_a_gpu_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with_torch(monkeypatch, FakeTorch(gpu=False))
    with pytest.raises(EngineError, match=r"torch 2\.11\.0 sees no GPU"):
        torch_peers.TorchPeer(FakeEngine())  # type: ignore[arg-type]


def adding(log: list[Any], result: Any) -> Any:
    """A function of two matrices that notes its calls."""

    def function(a: FakeTensor, b: FakeTensor, **out: FakeTensor) -> Any:
        log.append((a.address, b.address, *(each.address for each in out.values())))
        return result

    return function


def test_a_function_that_takes_out_needs_no_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []
    with_torch(monkeypatch, FakeTorch())

    def into(torch: Any) -> Any:
        return adding(log, None)

    peer = torch_peers.FunctionPeer(FakeEngine(), "mine", into, "mine 1.0", True)  # type: ignore[arg-type]
    bound = peer.bind(buffers(10, 11), buffers(20), buffers(30, 31), Problem())
    bound.enqueue(1)
    assert log == [(10, 20, 30), (11, 20, 31)]
    assert (bound.version, bound.deliver) == ("mine 1.0, torch 2.11.0", None)


def test_what_a_function_returns_is_delivered_outside_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log: list[Any] = []
    with_torch(monkeypatch, FakeTorch())
    result = FakeTensor(99, ((M, N), "half"))
    peer = torch_peers.FunctionPeer(FakeEngine(), "mine", lambda torch: adding(log, result), "1")  # type: ignore[arg-type]
    bound = peer.bind(buffers(10), buffers(20), buffers(30), Problem())
    bound.enqueue(0)
    assert log == [(10, 20)] * 2
    assert bound.deliver is not None
    assert result.copied_to == []
    bound.deliver(0)
    assert result.copied_to == [30]


@pytest.mark.parametrize("note", [((N, M), "half"), ((M, N), "bf")])
def test_another_shape_or_type_than_c_is_refused(
    monkeypatch: pytest.MonkeyPatch, note: Any
) -> None:
    with_torch(monkeypatch, FakeTorch())
    wrong = adding([], FakeTensor(99, note))
    peer = torch_peers.FunctionPeer(FakeEngine(), "mine", lambda torch: wrong, "1")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"mine returned .*; it must return half \(48, 80\)"):
        peer.bind(buffers(10), buffers(20), buffers(30), Problem())


def test_a_function_that_fails_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(a: Any, b: Any) -> Any:
        raise ValueError("no such tile\nand more")

    with_torch(monkeypatch, FakeTorch())
    peer = torch_peers.FunctionPeer(FakeEngine(), "mine", lambda torch: broken, "1")  # type: ignore[arg-type]
    with pytest.raises(EngineError, match=r"mine failed: ValueError: no such tile$"):
        peer.bind(buffers(10), buffers(20), buffers(30), Problem())
