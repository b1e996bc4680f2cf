"""Arguments of a launch → the bytes of its parameters."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from tilewright.emulator.ir import TYPE_BYTES, Kernel, Parameter
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.struct_arguments import struct_bytes
from tilewright.errors import InputError
from tilewright.tensormap import MAP_BYTES, TensorMap

_POINTER_BYTES = 8


def argument_bytes(
    value: Any,
    parameter: Parameter,
    memory: GlobalMemory,
    *,
    what: str | None = None,
    written: bool = True,
) -> bytes:
    """The bytes of one parameter. An array is given an address in `memory`.

    `what` is what a message calls the argument, the parameter's name if not given. An array that
    the kernel does not write (`written`) may be read-only.
    Raises: InputError when the value does not fit the parameter.
    """
    name, size = what or parameter.name, parameter.nbytes
    if isinstance(value, TensorMap):
        return _map_bytes(value, parameter, memory, name, written)
    if isinstance(value, list) and value and all(isinstance(it, TensorMap) for it in value):
        tokens = b"".join(memory.maps.token(one, memory, parameter.name) for one in value)
        value = np.frombuffer(tokens, np.uint8).copy()
    if isinstance(value, np.ndarray) and not value.ndim:
        if value.dtype.names is None:
            raise InputError(
                f"{name} got an array without extents; give value.item() for a number, or an "
                "array of shape (1,) for a pointer."
            )
        value = value[()]
    if isinstance(value, tuple):
        named = Parameter(name, parameter.kind, 0, size)
        return struct_bytes(
            value, named, lambda one, part: argument_bytes(one, part, memory, written=written)
        )
    if value is None or isinstance(value, np.ndarray):
        _check_pointer(value, parameter, name, written)
        address = 0 if value is None else memory.allocate(value, parameter.name)
        return address.to_bytes(_POINTER_BYTES, "little")
    if isinstance(value, (bytes, bytearray, np.void)) or _is_packed_scalar(value, parameter):
        raw = value if isinstance(value, (bytes, bytearray)) else value.tobytes()
        if len(raw) != size:
            raise InputError(f"{name} takes {size} bytes, not {len(raw)}.")
        return bytes(raw)
    if size != TYPE_BYTES[parameter.kind]:
        raise InputError(
            f"{name} is a struct of {size} bytes; give bytes, a NumPy void or a tuple, "
            f"not a {type(value).__name__}."
        )
    make = _float_bytes if parameter.kind[0] == "f" else _int
    return make(value, size, name)


def pack(kernel: Kernel, params: Sequence[bytes]) -> bytes:
    """All parameters at their offsets in .param space."""
    if len(params) != len(kernel.params):
        raise InputError(f"{kernel.name} takes {len(kernel.params)} parameters, not {len(params)}.")
    packed = bytearray()
    for raw, parameter in zip(params, kernel.params, strict=True):
        if len(raw) != parameter.nbytes:
            raise InputError(f"{parameter.name} takes {parameter.nbytes} bytes, not {len(raw)}.")
        packed = packed.ljust(parameter.offset, b"\0") + raw
    return bytes(packed)


def _map_bytes(
    value: TensorMap, parameter: Parameter, memory: GlobalMemory, name: str, written: bool
) -> bytes:
    if parameter.nbytes != MAP_BYTES:
        raise InputError(
            f"{name} takes {parameter.nbytes} bytes, and a tensor map has {MAP_BYTES}: the kernel "
            "must take it by value (const __grid_constant__ CUtensorMap), or a pointer to several, "
            "for which a list of maps stands."
        )
    base = value.base
    if isinstance(base, np.ndarray) and written and not base.flags.writeable:
        raise InputError(
            f"the array of the tensor map for {name} is read-only, and the kernel may write it; "
            "give its .copy()."
        )
    return memory.maps.token(value, memory, parameter.name)


def _check_pointer(
    value: np.ndarray[Any, Any] | None, parameter: Parameter, name: str, written: bool
) -> None:
    kind = parameter.kind
    if parameter.nbytes != _POINTER_BYTES or kind == "f64":
        what = "None is a null pointer" if value is None else "an array needs a pointer"
        if parameter.nbytes == MAP_BYTES:
            what += ", and a tensor map is what tilewright.tensormap.tiled(array, box) makes"
        raise InputError(f"{name} is a .{kind} of {parameter.nbytes} bytes; {what}.")
    if value is None:
        return
    if not value.flags.c_contiguous:
        raise InputError(
            f"the array for {name} is not C-contiguous (shape {value.shape}, strides "
            f"{value.strides} bytes); give np.ascontiguousarray(...) of it."
        )
    if written and not value.flags.writeable:
        raise InputError(
            f"the array for {name} is read-only, and the kernel may write it; give its .copy()."
        )
    if value.dtype.hasobject or not value.dtype.itemsize:
        raise InputError(f"the array for {name} holds {value.dtype}, which no kernel can read.")
    if not value.dtype.isnative:
        raise InputError(f"the array for {name} has the byte order of another machine.")


def _is_packed_scalar(value: Any, parameter: Parameter) -> bool:
    """A float16 or bfloat16 scalar for a parameter of 2 bytes (CUDA's __half is a struct)."""
    if not isinstance(value, np.generic) or value.dtype.kind not in "fV":
        return type(value).__name__ == "bfloat16" and parameter.nbytes == 2
    return parameter.kind in ("b8", "b16", "f16") and value.dtype.itemsize == parameter.nbytes


def _float_bytes(value: Any, size: int, name: str) -> bytes:
    try:
        if isinstance(value, (str, complex, np.complexfloating)):
            raise TypeError
        with np.errstate(all="ignore"):  # too large for the type: infinity
            return np.array(float(value), f"f{size}").tobytes()
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} is a float of {size} bytes, not {_shown(value)}.") from None


def _int(value: Any, size: int, name: str) -> bytes:
    bits = 8 * size
    try:
        number = int(value) if isinstance(value, np.bool_) else index(value)
    except TypeError:
        what = f"an integer of {size} bytes, not {_shown(value)}"
        if size == _POINTER_BYTES:
            what = f"a pointer or {what}; give a NumPy array, None or a whole number"
        raise InputError(f"{name} is {what}.") from None
    if not -(1 << bits - 1) <= number < 1 << bits:
        raise InputError(f"{name} is {_shown(number)}, which does not fit in {size} bytes.")
    return (number & ((1 << bits) - 1)).to_bytes(size, "little")


def _shown(value: Any) -> str:
    """A value as a sentence shows it: on one line and not endless."""
    try:
        return " ".join(reprlib.repr(value).split())
    except ValueError:  # an integer of more digits than Python prints
        return f"this {type(value).__name__}"
