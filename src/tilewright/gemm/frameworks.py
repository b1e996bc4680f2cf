"""PyTorch, CuPy and JAX: reading tensors natively, results and streams in the caller's terms.

Nothing here is reached before the caller has imported the framework and given one of its arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import DType
from tilewright.errors import InputError
from tilewright.gemm.arrays import Operand, operand, type_taken
from tilewright.gemm.form import packed

_NAMES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}  # as torch has them


def _elsewhere(argument: str, where: str, move: str, host: str) -> InputError:
    return InputError(
        f"{argument} lies on {where}; move it to a GPU with {move}, or give a NumPy array "
        f"({host}), which runs in the emulator."
    )


class Torch:
    """Tensors of PyTorch, by data_ptr: the results of autograd's functions are not tracked."""

    name, allocates = "PyTorch", True

    def read(self, argument: str, array: Any, stream: int | None) -> Operand:
        torch = sys.modules["torch"]
        device = array.device
        if device.type != "cuda":
            move, host = f"{argument}.cuda()", f"{argument}.numpy()"
            raise _elsewhere(argument, f"the device {device}", move, host)
        if str(array.layout) != "torch.strided":
            raise InputError(f"{argument} is {array.layout}; give it dense: {argument}.to_dense().")
        advice = f"convert it, as by {argument}.to(torch.bfloat16)"
        dtype = type_taken(argument, array.dtype, advice)
        if array.requires_grad and torch.is_grad_enabled():
            raise InputError(
                f"{argument} requires a gradient, and tilewright.matmul records none: call "
                f"tilewright.torch.matmul, which does, or give {argument}.detach()."
            )
        if array.is_neg():
            array = array.resolve_neg()
        shape, strides = array.shape, array.stride()
        return operand(argument, array, array.data_ptr(), dtype, shape, strides, device.index, self)

    def empty(self, like: Operand, shape: Sequence[int], dtype: DType, stream: int | None) -> Any:
        torch = sys.modules["torch"]
        kind, device = getattr(torch, _NAMES[dtype.name]), like.array.device
        if stream is None:
            return torch.empty(shape, dtype=kind, device=device)
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device)):
            return torch.empty(shape, dtype=kind, device=device)

    def copy(self, source: Any, to: Any) -> None:
        to.copy_(source)

    def stream(self, ordinal: int) -> int | None:
        torch = sys.modules["torch"]
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # 10 times as fast
        if raw is not None:
            return int(raw(ordinal))
        return int(torch.cuda.current_stream(ordinal).cuda_stream)


class CuPy:
    """Arrays of CuPy."""

    name, allocates = "CuPy", True

    def read(self, argument: str, array: Any, stream: int | None) -> Operand:
        advice = f"convert it, as by {argument}.astype('float32')"
        dtype = type_taken(argument, array.dtype.name, advice)
        if any(stride % dtype.bytes for stride in array.strides):
            raise InputError(f"{argument} has strides of {array.strides} bytes; give it a copy.")
        strides = tuple(stride // dtype.bytes for stride in array.strides)
        ordinal = int(array.device.id)
        address = int(array.data.ptr)
        return operand(argument, array, address, dtype, array.shape, strides, ordinal, self)

    def empty(self, like: Operand, shape: Sequence[int], dtype: DType, stream: int | None) -> Any:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(like.ordinal):
            if stream is None:
                return cupy.empty(tuple(shape), dtype.numpy())
            with cupy.cuda.ExternalStream(stream):
                return cupy.empty(tuple(shape), dtype.numpy())

    def copy(self, source: Any, to: Any) -> None:
        with sys.modules["cupy"].cuda.Device(int(to.device.id)):
            to[...] = source

    def stream(self, ordinal: int) -> int | None:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(ordinal):
            return int(cupy.cuda.get_current_stream().ptr)


class Jax:
    """Arrays of JAX, eagerly. JAX has no streams: the host waits before and after."""

    name, allocates = "JAX", False

    def read(self, argument: str, array: Any, stream: int | None) -> Operand:
        jax: Any = sys.modules["jax"]
        if isinstance(array, jax.core.Tracer):
            raise InputError(f"{argument} is being traced; matmul runs eagerly, outside jax.jit.")
        if argument == "out":
            raise InputError("out is an array of JAX, which cannot be changed; leave out away.")
        devices = list(array.devices())
        if len(devices) != 1:
            raise InputError(f"{argument} lies on {len(devices)} devices; give one that is on one.")
        if devices[0].platform not in ("gpu", "cuda"):
            move, host = f"jax.device_put({argument}, gpu)", f"np.asarray({argument})"
            raise _elsewhere(argument, f"the device {devices[0]}", move, host)
        return self._placed(argument, array, devices[0])

    def _placed(self, argument: str, array: Any, device: Any) -> Operand:
        advice = f"convert it, as by {argument}.astype('bfloat16')"
        dtype = type_taken(argument, array.dtype.name, advice)
        array.block_until_ready()
        strides = packed(argument, dtype, array.shape).strides
        ordinal = getattr(device, "local_hardware_id", None)
        return operand(
            argument,
            array,
            int(array.unsafe_buffer_pointer()),
            dtype,
            array.shape,
            strides,
            int(device.id if ordinal is None else ordinal),
            self,
        )

    def empty(self, like: Operand, shape: Sequence[int], dtype: DType, stream: int | None) -> Any:
        jax: Any = sys.modules["jax"]
        device = next(iter(like.array.devices()))
        made = jax.numpy.empty(tuple(shape), dtype.numpy(), device=device)
        return made.block_until_ready()

    def copy(self, source: Any, to: Any) -> None:
        raise InputError("an array of JAX cannot be changed; leave out away.")

    def stream(self, ordinal: int) -> int | None:
        return None


TORCH = Torch()
CUPY = CuPy()
JAX = Jax()
