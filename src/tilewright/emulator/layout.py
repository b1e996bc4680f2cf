"""Where a kernel's variables lie in shared and in local memory."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.emulator.ir import Address, Kernel, Operand, Symbol, Variable, Vector

DYNAMIC_ALIGN = 1024  # dynamic shared memory starts on the driver's largest alignment


def used_variables(kernel: Kernel, variables: dict[str, Variable]) -> dict[str, Variable]:
    """The variables that the kernel names: other kernels' shared memory is not allotted."""
    named = {name for instruction in kernel.instructions for name in _names(instruction.operands)}
    return {name: variable for name, variable in variables.items() if name in named}


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
