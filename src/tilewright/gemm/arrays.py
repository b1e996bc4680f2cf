"""The arrays of every framework as operands: where they lie, in which type, on which device.

A framework is never imported here, only looked up among what the caller has imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from tilewright.dtypes import DType, dtype_of
from tilewright.errors import InputError
from tilewright.gemm.form import Form, alignment_of

TAKEN = ("bf16", "fp16", "fp32")  # of operands and results
HOST = -1  # the ordinal of memory that is the host's
_WAY_OUT = "NumPy arrays run in the emulator, tensors on a GPU run there"


class Framework(Protocol):
    """What is asked of the library that an array comes from. `name` is the word in messages."""

    name: str

    def read(self, argument: str, array: Any, stream: int | None) -> Operand:
        """Where the array lies. `stream` is the one that the product will run on, if given.

        Raises: InputError, naming the argument, for an array that no kernel can read.
        """
        ...

    def empty(self, like: Operand, shape: Sequence[int], dtype: DType, stream: int | None) -> Any:
        """A new row-major array on the device of `like`, for work on this stream, the current one
        where none is given."""
        ...

    def copy(self, source: Any, to: Any) -> None:
        """to[...] = source, in the order of the current stream."""
        ...

    def stream(self, ordinal: int) -> int | None:
        """The caller's current stream on this device; None where the host has to wait."""
        ...


@dataclass(frozen=True, eq=False)
class Operand:
    """An array, its form, and where it lies: `address` of its first element, on GPU `ordinal`.

    `array` is what keeps the memory alive; `ordinal` is HOST for NumPy arrays.
    """

    form: Form
    address: int
    ordinal: int
    array: Any
    framework: Framework

    @property
    def transposed(self) -> Operand:
        """The same memory with its two dimensions exchanged."""
        form = self.form
        turned = replace(form, shape=form.shape[::-1], strides=form.strides[::-1])
        return replace(self, form=turned)

    @property
    def place(self) -> str:
        return "the host" if self.ordinal == HOST else f"cuda:{self.ordinal}"

    @property
    def span(self) -> tuple[int, int]:
        """The addresses of its first byte and of the one after its last."""
        low, high = self.form.span
        return self.address + low, self.address + high

    def overlaps(self, other: Operand) -> bool:
        """Whether both touch a common stretch of memory."""
        (low, high), (from_, to) = self.span, other.span
        return self.ordinal == other.ordinal and low < to and from_ < high

    def coincides(self, other: Operand) -> bool:
        """Whether both are the same elements at the same places."""
        mine = (self.address, self.form.dtype, self.form.shape, self.form.strides)
        theirs = (other.address, other.form.dtype, other.form.shape, other.form.strides)
        return mine == theirs


def operand(
    argument: str,
    array: Any,
    address: int,
    dtype: DType,
    shape: Sequence[int],
    strides: Sequence[int],
    ordinal: int,
    framework: Framework,
) -> Operand:
    """An operand from its parts; strides count elements."""
    form = Form(argument, dtype, tuple(shape), tuple(strides), alignment_of(address))
    return Operand(form, address, ordinal, array, framework)


def type_taken(argument: str, name: object, advice: str = "convert it to one of them") -> DType:
    """The type called so by NumPy or torch. Raises: InputError for what no kernel takes."""
    found = _taken(name)
    if found is None:
        word = name.__name__ if isinstance(name, type) else str(name).removeprefix("torch.")
        raise InputError(f"{argument} is {word}; matmul takes bf16, fp16 and fp32: {advice}.")
    return found


@lru_cache(maxsize=256)
def _taken(name: object) -> DType | None:
    try:
        found = dtype_of(name)
    except InputError:
        return None
    return found if found.name in TAKEN else None


def read(argument: str, array: Any, stream: int | None = None) -> Operand:
    """The operand behind any framework's array.

    Raises: InputError, naming the argument, for what is no array, lies in the memory of the host
    (unless NumPy's), or has a type that no kernel takes.
    """
    for framework in _frameworks(array):
        return framework.read(argument, array, stream)
    raise InputError(
        f"{argument} is a {type(array).__name__}; give an array of NumPy, PyTorch, CuPy or JAX, or "
        f"one with __dlpack__ or __cuda_array_interface__ ({_WAY_OUT})."
    )


def _frameworks(array: Any) -> Iterator[Framework]:
    """Those that the array may belong to; the import of a framework is its user's."""
    if isinstance(array, np.ndarray):
        yield NUMPY
        return
    if (torch := sys.modules.get("torch")) is not None and isinstance(array, torch.Tensor):
        from tilewright.gemm.frameworks import TORCH

        yield TORCH
    elif (cupy := sys.modules.get("cupy")) is not None and isinstance(array, cupy.ndarray):
        from tilewright.gemm.frameworks import CUPY

        yield CUPY
    elif (jax := sys.modules.get("jax")) is not None and isinstance(array, jax.Array):
        from tilewright.gemm.frameworks import JAX

        yield JAX
    elif hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        from tilewright.gemm.foreign import DLPACK

        yield DLPACK
    elif hasattr(array, "__cuda_array_interface__"):
        from tilewright.gemm.foreign import CUDA_ARRAY

        yield CUDA_ARRAY


class NumPy:
    """Arrays of the host; bf16 by the package ml_dtypes."""

    name = "NumPy"

    def read(self, argument: str, array: Any, stream: int | None) -> Operand:
        advice = f"convert it, as by {argument}.astype(np.float32)"
        dtype = type_taken(argument, array.dtype.name, advice)
        size = dtype.bytes
        if not array.dtype.isnative:
            raise InputError(
                f"{argument} has the other byte order ({array.dtype.str}); convert it: "
                f"{argument}.astype({argument}.dtype.newbyteorder('='))."
            )
        address = array.__array_interface__["data"][0]
        if address % size or any(stride % size for stride in array.strides):
            if argument == "out":
                raise InputError("out lies between the places of its type; give an aligned array.")
            return self.read(argument, np.array(array), stream)  # a field of a packed struct
        strides = tuple(stride // size for stride in array.strides)
        return operand(argument, array, address, dtype, array.shape, strides, HOST, self)

    def empty(self, like: Operand, shape: Sequence[int], dtype: DType, stream: int | None) -> Any:
        return np.empty(shape, dtype.numpy())

    def copy(self, source: Any, to: Any) -> None:
        to[...] = source

    def stream(self, ordinal: int) -> int | None:
        return None


NUMPY = NumPy()


def of_one_place(operands: list[Operand]) -> Operand:
    """The first operand, whose framework and device are all others', too.

    Raises: InputError, naming both arguments, where that is not so.
    """
    first = operands[0]
    for other in operands[1:]:
        names = f"{first.form.argument} is {{}} and {other.form.argument} {{}}"
        if other.framework.name != first.framework.name:
            said = names.format(_of(first), _of(other))
            raise InputError(f"{said}; give all arrays in one framework.")
        if other.ordinal != first.ordinal:
            said = names.format(f"on {first.place}", f"on {other.place}")
            raise InputError(f"{said}; move one of them.")
    return first


def _of(operand: Operand) -> str:
    return f"an array of {operand.framework.name}"
