"""Arguments of a launch → the bytes of its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from tilewright.emulator.ir import TYPE_BYTES, Kernel, Parameter
from tilewright.emulator.memory import GlobalMemory
from tilewright.errors import InputError

_POINTER_BYTES = 8


def argument_bytes(value: Any, parameter: Parameter, memory: GlobalMemory) -> bytes:
    """The bytes of one parameter. An array is given an address in `memory`.

    Raises: InputError when the value does not fit the parameter.
    """
    name, size = parameter.name, parameter.nbytes
    if isinstance(value, np.ndarray) and not value.ndim:
        if value.dtype.names is None:
            raise InputError(
                f"{name} got an array without extents; give value.item() for a number, or an "
                "array of shape (1,) for a pointer."
            )
        value = value[()]
    if value is None or isinstance(value, np.ndarray):
        _check_pointer(value, parameter)
        address = 0 if value is None else memory.allocate(value, name)
        return address.to_bytes(_POINTER_BYTES, "little")
    if isinstance(value, (bytes, bytearray, np.void)) or _is_packed_scalar(value, parameter):
        raw = value if isinstance(value, (bytes, bytearray)) else value.tobytes()
        if len(raw) != size:
            raise InputError(f"{name} takes {size} bytes, not {len(raw)}.")
        return bytes(raw)
    if size != TYPE_BYTES[parameter.kind]:
        raise InputError(
            f"{name} is a struct of {size} bytes; give bytes or a NumPy void, "
            f"not a {type(value).__name__}."
        )
    return _float_bytes(value, parameter) if parameter.kind[0] == "f" else _int(value, parameter)


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


def _check_pointer(value: np.ndarray[Any, Any] | None, parameter: Parameter) -> None:
    name, kind = parameter.name, parameter.kind
    if parameter.nbytes != _POINTER_BYTES or kind == "f64":
        what = "None is a null pointer" if value is None else "an array needs a pointer"
        raise InputError(f"{name} is a .{kind} of {parameter.nbytes} bytes; {what}.")
    if value is None:
        return
    if not (value.flags.c_contiguous and value.flags.writeable):
        raise InputError(f"the array for {name} must be C-contiguous and writeable.")
    if value.dtype.hasobject or not value.dtype.itemsize:
        raise InputError(f"the array for {name} holds {value.dtype}, which no kernel can read.")
    if not value.dtype.isnative:
        raise InputError(f"the array for {name} has the byte order of another machine.")


def _is_packed_scalar(value: Any, parameter: Parameter) -> bool:
    """A float16 or bfloat16 scalar for a parameter of 2 bytes (CUDA's __half is a struct)."""
    if not isinstance(value, np.generic) or value.dtype.kind not in "fV":
        return type(value).__name__ == "bfloat16" and parameter.nbytes == 2
    return parameter.kind in ("b8", "b16", "f16") and value.dtype.itemsize == parameter.nbytes


def _float_bytes(value: Any, parameter: Parameter) -> bytes:
    size = parameter.nbytes
    try:
        if isinstance(value, (str, complex, np.complexfloating)):
            raise TypeError
        with np.errstate(all="ignore"):  # too large for the type: infinity
            return np.array(float(value), f"f{size}").tobytes()
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{parameter.name} is a float of {size} bytes, not {value!r}.") from None


def _int(value: Any, parameter: Parameter) -> bytes:
    name, bits = parameter.name, 8 * parameter.nbytes
    try:
        number = int(value) if isinstance(value, np.bool_) else index(value)
    except TypeError:
        raise InputError(
            f"{name} is an integer of {parameter.nbytes} bytes, not {value!r}."
        ) from None
    if not -(1 << bits - 1) <= number < 1 << bits:
        raise InputError(f"{name}={number} does not fit in {parameter.nbytes} bytes.")
    return (number & ((1 << bits) - 1)).to_bytes(parameter.nbytes, "little")
