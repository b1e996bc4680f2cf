"""Where a kernel's variables lie in shared and in local memory."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.emulator.ir import Address, Kernel, Operand, Symbol, Variable, Vector
from tilewright.errors import InputError

_MOST_SHARED = 48 * 1024  # of static variables; ptxas refuses more
_MOST_CONSTANT = 64 * 1024
_MOST_LOCAL = 512 * 1024  # bytes of a thread
_MOST_PARAMS = 32764
DYNAMIC_ALIGN = 1024  # dynamic shared memory starts on the driver's largest alignment


def used_variables(kernel: Kernel, variables: dict[str, Variable]) -> dict[str, Variable]:
    """The variables that the kernel names, and those whose addresses these hold at first.

    Others stay out: other kernels' shared memory is not allotted.
    """
    todo = [name for instruction in kernel.instructions for name in _names(instruction.operands)]
    named: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in named and name in variables:
            named.add(name)
            todo += [link.name for link in variables[name].links]
    return {name: variable for name, variable in variables.items() if name in named}


def check_sizes(kernel: Kernel, variables: dict[str, Variable]) -> None:
    """Raises InputError where ptxas or the driver refuse the kernel for its memory."""
    static = {v.name: v for v in variables.values() if v.space != "shared" or v.nbytes}
    shared, local = shared_layout(static)[1], local_layout(variables)[1]
    constants = sum(v.nbytes for v in variables.values() if v.space == "const")
    params = max((each.offset + each.nbytes for each in kernel.params), default=0)
    for what, nbytes, most, way_out in (
        ("static shared memory", shared, _MOST_SHARED, "declare it extern and give shared_bytes"),
        ("constant memory", constants, _MOST_CONSTANT, "put it into .global"),
        ("local memory in a thread", local, _MOST_LOCAL, "put it into an array of the caller's"),
        ("parameters", params, _MOST_PARAMS, "pass a pointer"),
    ):
        if nbytes > most:
            raise InputError(
                f"{kernel.name} has {nbytes:,} bytes of {what}, and CUDA allows {most:,}: "
                f"{way_out}."
            )


def _names(operands: tuple[Operand, ...]) -> Iterator[str]:
    for operand in operands:
        match operand:
            case Symbol(name=name) | Address(base=Symbol(name=name)):
                yield name
            case Vector(items=items):
                yield from _names(items)


def shared_layout(variables: dict[str, Variable]) -> tuple[dict[str, int], int]:
    """Offsets of the .shared variables: sized ones in order, then the dynamic ones, together."""
    offsets: dict[str, int] = {}
    end = 0
    for variable in variables.values():
        if variable.space == "shared" and variable.nbytes:
            end = -(-end // variable.align) * variable.align
            offsets[variable.name] = end
            end += variable.nbytes
    dynamic = [v.name for v in variables.values() if v.space == "shared" and not v.nbytes]
    if dynamic and end:
        end = -(-end // DYNAMIC_ALIGN) * DYNAMIC_ALIGN
    offsets.update(dict.fromkeys(dynamic, end))
    return offsets, end


def local_layout(variables: dict[str, Variable]) -> tuple[dict[str, int], int]:
    """Offsets in a thread's own memory: .local variables, and .param ones that calls use."""
    offsets: dict[str, int] = {}
    end = 0
    for variable in variables.values():
        if variable.space in ("local", "param"):
            end = -(-end // variable.align) * variable.align
            offsets[variable.name] = end
            end += variable.nbytes
    return offsets, end
