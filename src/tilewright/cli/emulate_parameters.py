"""The arguments of `tilewright emulate` against the kernel's parameters, by their C++ types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.cli.emulate_args import Argument
from tilewright.emulator.arguments import argument_bytes
from tilewright.emulator.ir import TYPE_BYTES
from tilewright.emulator.memory import GlobalMemory
from tilewright.errors import InputError
from tilewright.kernel_signature import Formal
from tilewright.kernel_source import plain_name
from tilewright.tensormap import MAP_BYTES

if TYPE_CHECKING:
    from tilewright.emulator.ir import Kernel, Parameter


def check_parameters(
    kernel: Kernel, arguments: Sequence[Argument], formals: Sequence[Formal]
) -> None:
    """Each argument against its parameter. Raises: InputError that names the argument."""
    if len(arguments) != len(kernel.params):
        given = f" ({', '.join(a.label for a in arguments)})" if arguments else ""
        pairs = zip(kernel.params, formals, strict=True)
        takes = ", ".join(_declaration(parameter, formal) for parameter, formal in pairs)
        raise InputError(
            f"--arg is given {len(arguments)} times{given}; {plain_name(kernel.name)} takes "
            f"{len(kernel.params)} parameters{f' ({takes})' if takes else ''}."
        )
    memory = GlobalMemory()
    for argument, parameter, formal in zip(arguments, kernel.params, formals, strict=True):
        shown = replace(parameter, name=f"--arg {argument.label}")
        _check_whole(argument, parameter, formal)
        _check_kind(argument, parameter, formal)
        argument_bytes(argument.sample if argument.fill != "null" else None, shown, memory)


def _declaration(parameter: Parameter, formal: Formal) -> str:
    """`float* out` as the kernel declares it; what PTX knows of it where that is all."""
    of_ptx = f".{parameter.kind}" if parameter.nbytes <= 8 else f"{parameter.nbytes} bytes"
    words = (formal.type or of_ptx, formal.name if formal.type else None)
    return " ".join(word for word in words if word)


def _check_kind(argument: Argument, parameter: Parameter, formal: Formal) -> None:
    """An array or null for what is no pointer, a number for a struct: says what it is in C++."""
    if formal.type is None:
        return
    shown = f"--arg {argument.label} is for {_declaration(parameter, formal)}"
    is_pointer = argument.fill == "null" or argument.dtype is not None
    if is_pointer and parameter.nbytes == MAP_BYTES:
        raise InputError(
            f"{shown}, of {MAP_BYTES} bytes. If that is a tensor map, there is no word for one: "
            "call tilewright.emulate with tilewright.tensormap.tiled(array, box)."
        )
    if is_pointer and (parameter.nbytes != 8 or parameter.kind == "f64"):
        given = "null" if argument.fill == "null" else "an array"
        raise InputError(
            f"{shown}, of {parameter.nbytes} bytes, which takes no pointer; give a number or "
            f"bytes:HEX, not {given}."
        )
    if argument.fill == "number" and parameter.nbytes != TYPE_BYTES[parameter.kind]:
        raise InputError(
            f"{shown}, a struct of {parameter.nbytes} bytes; give bytes:HEX, not a number."
        )


def _check_whole(argument: Argument, parameter: Parameter, formal: Formal) -> None:
    """A fraction for what may be a pointer: says what the words for one are."""
    fraction = argument.fill == "number" and not isinstance(
        argument.value, (int, np.integer, np.bool_)
    )
    if fraction and parameter.nbytes == 8 and parameter.kind[0] != "f":
        label = argument.label
        what = "a pointer or an integer of 8 bytes"
        what = what if formal.type is None else f"for {_declaration(parameter, formal)}"
        raise InputError(
            f"--arg {label} is {what}, not {argument.value}; give an "
            f"array, as in {label}=randn:64, null or a whole number."
        )
