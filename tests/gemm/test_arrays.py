"""Operands of every framework: where they lie, by fakes of the libraries that are not here."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.dtypes import BF16, FP16, FP32
from tilewright.engines import driver
from tilewright.errors import InputError
from tilewright.gemm.arrays import HOST, NUMPY, Operand, of_one_place, read
from tilewright.gemm.form import Form, packed
from tilewright.gemm.frameworks import TORCH
from tilewright.gemm.streams import handle_of

# --- NumPy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "found"), [(np.float32, FP32), (np.float16, FP16), (ml_dtypes.bfloat16, BF16)]
)
def test_numpy_by_elements(dtype: Any, found: Any) -> None:
    whole = np.zeros((8, 10), dtype)
    view = whole[6::-2, 1::3]
    operand = read("a", view)
    size = found.bytes
    assert operand.form.dtype == found
    assert (operand.form.shape, operand.form.strides) == ((4, 3), (-20, 3))
    start = whole.__array_interface__["data"][0]
    assert operand.address == start + 61 * size
    assert operand.span == (start + size, start + 68 * size)
    assert (operand.ordinal, operand.framework) == (HOST, NUMPY)


@pytest.mark.parametrize(("lead", "alignment"), [(0, 16), (1, 2), (2, 4), (4, 8), (8, 16), (6, 4)])
def test_the_alignment_is_that_of_the_first_element(lead: int, alignment: int) -> None:
    memory = np.zeros(64, np.float16)
    skip = -memory.__array_interface__["data"][0] // 2 % 8
    assert read("a", memory[skip + lead :][:4]).form.alignment == alignment


def test_a_field_of_a_packed_struct_is_copied() -> None:
    records = np.zeros(5, np.dtype([("flag", "u1"), ("x", "<f4")]))
    records["x"] = range(5)
    operand = read("a", records["x"])
    assert operand.form.strides == (1,)
    assert (operand.array == np.arange(5)).all()


def test_overlaps() -> None:
    whole = np.zeros((6, 8), np.float32)
    top, low = read("a", whole[:3]), read("b", whole[3:])
    assert not top.overlaps(low)
    assert read("a", whole[:4]).overlaps(low)
    assert read("a", whole[::-1]).overlaps(low)
    assert not read("a", whole[:0]).overlaps(top)
    assert top.coincides(read("c", whole[:3]))
    assert not top.coincides(read("c", whole[:3, ::-1]))


# --- PyTorch, CuPy and JAX -----------------------------------------------------------------------


class Tensor:
    """What of a torch.Tensor is looked at."""

    def __init__(
        self, shape: tuple[int, ...] = (2, 3), device: str = "cuda", index: int = 0, **more: Any
    ) -> None:
        self.shape, self._strides = shape, packed("a", FP32, shape).strides
        self.device = SimpleNamespace(type=device, index=index)
        self.dtype, self.layout, self.requires_grad = "torch.float32", "torch.strided", False
        self.__dict__.update(more)

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def data_ptr(self) -> int:
        return 0x7F0000000104

    def is_neg(self) -> bool:
        return False


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made: list[Any] = []

    def empty(shape: Any, dtype: str, device: Any) -> Tensor:
        made.append((shape, dtype, device.index))
        return Tensor(tuple(shape), index=device.index, dtype=dtype)

    module = SimpleNamespace(
        Tensor=Tensor,
        is_grad_enabled=lambda: True,
        empty=empty,
        made=made,
        bfloat16="torch.bfloat16",
        float32="torch.float32",
        _C=SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: 70 + ordinal),
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_torch_by_data_ptr(torch: SimpleNamespace) -> None:
    operand = read("a", Tensor(index=1, dtype="torch.bfloat16"))
    form = Form("a", BF16, (2, 3), (3, 1), 4)
    assert (operand.form, operand.address) == (form, 0x7F0000000104)
    assert (operand.place, operand.framework) == ("cuda:1", TORCH)
    assert TORCH.stream(1) == 71
    TORCH.empty(operand, (2, 4), FP32, None)
    assert torch.made == [((2, 4), "torch.float32", 1)]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"device": "cpu"}, r"bias lies on the device .*; move it to a GPU with bias.cuda\(\), or"),
        ({"device": "meta"}, "bias lies on the device"),
        ({"dtype": "torch.float64"}, "bias is float64; matmul takes bf16, fp16 and fp32"),
        ({"dtype": "torch.float8_e4m3fn"}, "bias is float8_e4m3fn; matmul takes"),
        ({"layout": "torch.sparse_coo"}, "bias is torch.sparse_coo; give it dense"),
        ({"requires_grad": True}, "bias requires a gradient"),
    ],
)
def test_tensors_that_are_refused(torch: SimpleNamespace, more: dict[str, Any], said: str) -> None:
    """Faults RUN-04 and INT-10: the message names the operand."""
    with pytest.raises(InputError, match=said):
        read("bias", Tensor(**more))


def test_gradients_may_be_off(torch: SimpleNamespace) -> None:
    torch.is_grad_enabled = lambda: False
    assert read("a", Tensor(requires_grad=True)).form.dtype == FP32


def test_one_framework_and_one_device(torch: SimpleNamespace) -> None:
    """Fault RUN-03: both are named."""
    zero, one = read("a", Tensor(index=0)), read("bias", Tensor(index=1))
    with pytest.raises(InputError, match="a is on cuda:0 and bias on cuda:1; move one"):
        of_one_place([zero, one])
    host = read("b", np.zeros(3, np.float32))
    with pytest.raises(InputError, match="a is an array of PyTorch and b an array of NumPy"):
        of_one_place([zero, host])
    assert of_one_place([zero, read("b", Tensor(index=0))]) is zero


def test_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    class Array:
        shape, strides, dtype = (2, 3), (-24, 8), np.dtype(np.float32)
        data, device = SimpleNamespace(ptr=0x1000), SimpleNamespace(id=2)

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(ndarray=Array))
    operand = read("a", Array())
    assert operand.form == Form("a", FP32, (2, 3), (-6, 2))
    assert (operand.address, operand.place) == (0x1000, "cuda:2")


class JaxArray:
    shape, dtype, ndim = (2, 3), np.dtype(ml_dtypes.bfloat16), 2
    waited = 0
    platform = "gpu"

    def devices(self) -> set[Any]:
        class Device:
            platform, id, local_hardware_id = self.platform, 5, 3

        return {Device()}

    def block_until_ready(self) -> None:
        self.waited += 1

    def unsafe_buffer_pointer(self) -> int:
        return 0x2000


class Tracer(JaxArray):
    pass


@pytest.fixture
def jax(monkeypatch: pytest.MonkeyPatch) -> None:
    core = SimpleNamespace(Tracer=Tracer)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(Array=JaxArray, core=core))


def test_jax_is_waited_for(jax: None) -> None:
    array = JaxArray()
    operand = read("a", array)
    assert operand.form == Form("a", BF16, (2, 3), (3, 1))
    assert (operand.place, array.waited) == ("cuda:3", 1)
    assert operand.framework.stream(3) is None


def test_jax_refusals(jax: None) -> None:
    with pytest.raises(InputError, match="a is being traced"):
        read("a", Tracer())
    with pytest.raises(InputError, match="out is an array of JAX, which cannot be changed"):
        read("out", JaxArray())
    array = JaxArray()
    array.platform = "cpu"
    with pytest.raises(InputError, match="b lies on the device"):
        read("b", array)


# --- Protocols -----------------------------------------------------------------------------------


class Packed:
    """DLPack's capsule of a NumPy array, passed off as a GPU's."""

    def __init__(self, array: Any, device: tuple[int, int] = (2, 1)) -> None:
        self.inner, self._device, self.streams = array, device, list[int]()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, stream: int) -> Any:
        self.streams.append(stream)
        return self.inner.__dlpack__()


def test_dlpack_by_its_capsule() -> None:
    """Strides and offsets are honoured (INT-02), and the consumer's stream is given (INT-03)."""
    whole = np.zeros((6, 8), np.float32)
    view = whole[1::2, 7::-3]
    given = Packed(view)
    operand = read("a", given, 77)
    assert operand.form.shape == (3, 3)
    assert operand.form.strides == (16, -3)
    assert operand.address == view.__array_interface__["data"][0]
    assert (operand.place, given.streams) == ("cuda:1", [77])
    read("a", given)
    read("a", given, 0)
    assert given.streams == [77, 1, 1]


def test_dlpack_refusals() -> None:
    with pytest.raises(InputError, match="a is a Packed on the DLPack device 1"):
        read("a", Packed(np.zeros(3, np.float32), (1, 0)))
    with pytest.raises(InputError, match="a is float64; matmul takes"):
        read("a", Packed(np.zeros(3)))
    with pytest.raises(InputError, match="a is int32; matmul takes"):
        read("a", Packed(np.zeros(3, np.int32)))
    operand = read("a", Packed(np.zeros(3, np.float32)))
    with pytest.raises(InputError, match="a result in the form of a Packed cannot be made"):
        operand.framework.empty(operand, (3,), FP32, None)


def interface(**more: Any) -> Any:
    told = {"shape": (2, 3), "typestr": "<f4", "data": (0x3000, False), "version": 3, **more}
    return SimpleNamespace(__cuda_array_interface__=told)


def test_cuda_array_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    monkeypatch.setattr(driver, "ordinal_of", lambda address: 1)
    monkeypatch.setattr(driver, "finish", waited.append)
    operand = read("a", interface(strides=(-32, 8), stream=99))
    assert operand.form == Form("a", FP32, (2, 3), (-8, 2))
    assert (operand.place, waited) == ("cuda:1", [99])
    assert read("a", interface(strides=None)).form.strides == (3, 1)
    read("a", interface(stream=5), 5)  # the same stream: in order by itself
    assert waited == [99]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"typestr": "<f8"}, "out is float64; matmul takes"),
        ({"typestr": "<i4"}, "out is <i4; matmul takes"),
        ({"mask": object()}, "out has a mask"),
        ({"data": (0x3000, True)}, "out is read-only"),
    ],
)
def test_cuda_array_interface_refusals(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read("out", interface(**more))


# --- Streams, and what is not imported -----------------------------------------------------------


class OfCudaCore:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 42


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (None, None),
        (0, 0),
        (42, 42),
        (np.int64(42), 42),
        (OfCudaCore(), 42),
        (SimpleNamespace(__cuda_stream__=(0, 42)), 42),
        (SimpleNamespace(cuda_stream=42), 42),
        (SimpleNamespace(ptr=42), 42),
        (SimpleNamespace(handle=SimpleNamespace(value=42)), 42),
        (SimpleNamespace(handle=SimpleNamespace(value=None)), 0),
    ],
)
def test_streams_of_any_library(stream: Any, handle: int | None) -> None:
    """Fault INT-08."""
    assert handle_of(stream) == handle


@pytest.mark.parametrize("stream", ["a", 1.5, object()])
def test_what_is_no_stream(stream: Any) -> None:
    with pytest.raises(InputError, match="is no stream"):
        handle_of(stream)


def test_no_framework_is_imported() -> None:
    """Nor does a product of NumPy arrays touch a driver (RUN-05)."""
    program = (
        "import sys, numpy as np, tilewright\n"
        "a = np.ones((2, 0), np.float32)\n"
        "tilewright.matmul(a[:0], a.T, engine='emulator')\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'torch', 'cupy', 'jax'}, loaded\n"
        "assert 'cuda.bindings.driver' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_an_operand_on_the_host_is_called_so() -> None:
    operand: Operand = read("a", np.zeros(1, np.float32))
    assert operand.place == "the host"
