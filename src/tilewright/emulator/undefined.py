"""Values of registers that nothing wrote: carried on unseen, reported where they matter.

Compilers move, add and shuffle undefined values whose result they then drop, so reading one is no
fault. Storing one, branching by it or taking it for an address is. Each register that may hold such
a value has a second one beside it that says whence it came (`Compiler.watch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.arrays import Mask
from tilewright.emulator.ir import Instruction
from tilewright.emulator.operands import destinations, sources
from tilewright.emulator.ops.registry import Step
from tilewright.emulator.origins import origins_of
from tilewright.emulator.unset import carries

if TYPE_CHECKING:
    from tilewright.emulator.compiler import Compiler


def watched(compiler: Compiler, instruction: Instruction, step: Step) -> Step:
    """A step that carries undefined values on, or reports those that it makes use of."""
    flags = {name: compiler.flags[name] for name in sources(instruction) if name in compiler.flags}
    if not flags:
        return step
    if carries(instruction):
        return _carrier(compiler, instruction, step)
    return _user(compiler, flags, step)


def watched_guard(compiler: Compiler, instruction: Instruction) -> Step:
    """Reports a guard that nothing wrote."""
    assert instruction.guard is not None  # the caller looked
    name = instruction.guard.name
    return _user(compiler, {name: compiler.flags[name]}, lambda machine, mask: None)


def _user(compiler: Compiler, flags: dict[str, int], step: Step) -> Step:
    at = compiler.at

    def run(machine: Any, mask: Mask) -> None:
        if machine.hazards is not None:
            for name, flag in flags.items():
                machine.check_origin(at, name, machine.regs[flag], mask)
        step(machine, mask)

    return run


def _carrier(compiler: Compiler, instruction: Instruction, step: Step) -> Step:
    origins = origins_of(compiler, instruction)
    into = [compiler.flags.get(name) for name in destinations(instruction)]

    def run(machine: Any, mask: Mask) -> None:
        if machine.hazards is None:
            step(machine, mask)
            return
        regs, carried = machine.regs, origins(machine, mask)
        step(machine, mask)
        for flag, origin in zip(into, carried, strict=True):
            if flag is not None:
                regs[flag] = origin if mask is None else np.where(mask, origin, regs[flag])

    return run
