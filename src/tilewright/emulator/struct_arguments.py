"""A tuple → the bytes of a struct by value, laid out as C does: each member at its own alignment.

CuTe tensors, CUTLASS parameters and the like hold pointers, which bytes alone cannot name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.emulator.ir import TYPE_BYTES, Parameter
from tilewright.errors import InputError
from tilewright.tensormap import MAP_ALIGNMENT, MAP_BYTES, TensorMap

Member = Callable[[Any, Parameter], bytes]  # a value and what it is a member of → its bytes

_KINDS = {bool: "u8", int: "s32", float: "f32"}  # what C++ would make of Python's numbers


def struct_bytes(value: tuple[Any, ...], parameter: Parameter, member: Member) -> bytes:
    """The bytes of a parameter; `member` makes those of arrays and numbers.

    Raises: InputError when the members make a struct of another size, or one does not fit.
    """
    packed, alignment = _packed(value, parameter, member)
    if len(packed) != parameter.nbytes:
        raise InputError(
            f"{parameter.name} takes {parameter.nbytes} bytes, and its tuple makes "
            f"{len(packed)}, members aligned to {alignment}; a whole number stands for 4 bytes, "
            "np.int64(…) and its like for their own."
        )
    return packed


def _packed(value: tuple[Any, ...], parameter: Parameter, member: Member) -> tuple[bytes, int]:
    packed, most = b"", 1
    for place, one in enumerate(value):
        name = f"{parameter.name}[{place}]"
        if isinstance(one, tuple):
            raw, alignment = _packed(one, Parameter(name, "b8", 0, parameter.nbytes), member)
        else:
            kind, size = _form(one)
            raw = member(one, Parameter(name, kind, 0, size))
            alignment = 1 if isinstance(one, (bytes, bytearray, np.void)) else size
            if isinstance(one, TensorMap):
                alignment = MAP_ALIGNMENT
        packed = packed.ljust(-(-len(packed) // alignment) * alignment, b"\0") + raw
        most = max(most, alignment)
    return packed.ljust(-(-len(packed) // most) * most, b"\0"), most


def _form(value: Any) -> tuple[str, int]:
    """The PTX type and the bytes of a member."""
    if value is None or isinstance(value, np.ndarray):
        return "u64", TYPE_BYTES["u64"]
    if isinstance(value, list):
        return "u64", TYPE_BYTES["u64"]
    if isinstance(value, TensorMap):
        return "b8", MAP_BYTES
    if isinstance(value, (bytes, bytearray)):
        return "b8", len(value)
    if isinstance(value, np.void):
        return "b8", value.nbytes
    if isinstance(value, np.generic):
        letter = {"f": "f", "i": "s", "b": "u"}.get(value.dtype.kind, "u")
        size = value.dtype.itemsize
        return ("b16" if letter == "f" and size == 2 else f"{letter}{8 * size}"), size
    kind = _KINDS.get(type(value), "s32")
    return kind, TYPE_BYTES[kind]
