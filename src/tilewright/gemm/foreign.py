"""Arrays known only by a protocol: DLPack, and CUDA's array interface.

Sources: DLPack 1.0, dlpack.h; "CUDA Array Interface (Version 3)", Numba's documentation.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

from tilewright.dtypes import DType
from tilewright.errors import InputError
from tilewright.gemm.arrays import HOST, Operand, operand, type_taken
from tilewright.gemm.form import packed

_CUDA_DEVICES = (2, 13)  # kDLCUDA, kDLCUDAManaged
_DTYPES = {(2, 16): "float16", (2, 32): "float32", (4, 16): "bfloat16"}  # by code and bits
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_LEGACY_STREAM = 1  # in both protocols: the legacy default stream, whose handle is 0
_TYPESTRS = {"<f2": "float16", "<f4": "float32", "<f8": "float64", "<V2": "bfloat16"}


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Held:
    """An array by its DLPack capsule, which keeps the memory until it is dropped."""

    def __init__(self, array: Any, capsule: Any) -> None:
        self.array, self._capsule = array, capsule
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self.tensor = _Tensor.from_address(pointer(capsule, b"dltensor") or 0)
        rank = self.tensor.ndim
        self.shape = tuple(self.tensor.shape[axis] for axis in range(rank))

    def strides(self, argument: str, dtype: DType) -> tuple[int, ...]:
        """In elements; without any the array is row-major."""
        if not self.tensor.strides:
            return packed(argument, dtype, self.shape).strides
        return tuple(self.tensor.strides[axis] for axis in range(self.tensor.ndim))


class DLPack:
    """Anything with __dlpack__; results are made by its __array_namespace__, where it has one."""

    name = "DLPack"

    def read(self, argument: str, array: Any, stream: int | None) -> Operand:
        kind, ordinal = (int(word) for word in array.__dlpack_device__())
        if kind not in _CUDA_DEVICES:
            raise InputError(
                f"{argument} is a {type(array).__name__} on the DLPack device {kind}, and a GPU's "
                "memory is 2; np.from_dlpack makes a NumPy array of one on the host."
            )
        held = _Held(array, array.__dlpack__(stream=stream or _LEGACY_STREAM))
        tensor = held.tensor
        name = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
        dtype = type_taken(argument, name or f"{_KINDS.get(tensor.code, '?')}{tensor.bits}")
        address = (tensor.data or 0) + tensor.byte_offset
        strides = held.strides(argument, dtype)
        return operand(argument, held, address, dtype, held.shape, strides, ordinal, self)

    def empty(self, like: Operand, shape: Sequence[int], dtype: DType, stream: int | None) -> Any:
        array = like.array.array
        if not hasattr(array, "__array_namespace__"):
            raise InputError(
                f"a result in the form of a {type(array).__name__} cannot be made (it has no "
                "__array_namespace__); give out."
            )
        namespace = array.__array_namespace__()
        if dtype == like.form.dtype:
            return namespace.empty(shape, dtype=array.dtype, device=array.device)
        names = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
        wanted = getattr(namespace, names[dtype.name])
        return namespace.empty(shape, dtype=wanted, device=array.device)

    def copy(self, source: Any, to: Any) -> None:
        raise InputError("out overlaps an operand; give one that lies apart.")

    def stream(self, ordinal: int) -> int | None:
        return 0


class CudaArray:
    """Anything with __cuda_array_interface__. It can hold no bf16; results need `out`."""

    name = "the CUDA array interface"

    def read(self, argument: str, array: Any, stream: int | None) -> Operand:
        from tilewright.engines.driver import finish, ordinal_of

        told = array.__cuda_array_interface__
        if told.get("mask") is not None:
            raise InputError(f"{argument} has a mask, which no kernel reads; fill it in.")
        word = told["typestr"]
        dtype = type_taken(argument, _TYPESTRS.get(word, word))
        address, read_only = told["data"]
        if read_only and argument == "out":
            raise InputError("out is read-only; give an array that can be written.")
        strides = told.get("strides")
        shape = tuple(told["shape"])
        if strides is None:
            places = packed(argument, dtype, shape).strides
        else:
            places = tuple(stride // dtype.bytes for stride in strides)
        ordinal = ordinal_of(address) if prod(shape) else HOST
        if (producer := told.get("stream")) not in (None, stream or _LEGACY_STREAM):
            finish(producer)
        return operand(argument, array, address, dtype, shape, places, ordinal, self)

    def empty(self, like: Operand, shape: Sequence[int], dtype: DType, stream: int | None) -> Any:
        raise InputError(
            f"a result in the form of a {type(like.array).__name__} cannot be made; give out."
        )

    def copy(self, source: Any, to: Any) -> None:
        raise InputError("out overlaps an operand; give one that lies apart.")

    def stream(self, ordinal: int) -> int | None:
        return 0


DLPACK = DLPack()
CUDA_ARRAY = CudaArray()
