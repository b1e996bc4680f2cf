"""Values of registers that nothing wrote: carried on unseen, reported where they matter.

Compilers move, add and shuffle undefined values whose result they then drop, so reading one is no
fault. Storing one, branching by it or taking it for an address is. Each register that may hold such
a value has a second one beside it that says whence it came (`Compiler.watch`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.arrays import UNSET, Array, Mask
from tilewright.emulator.ir import Instruction, Register
from tilewright.emulator.operands import destinations, sources
from tilewright.emulator.ops.registry import Step, build_step
from tilewright.emulator.unset import carries

if TYPE_CHECKING:
    from tilewright.emulator.compiler import Compiler

ORIGIN = "?origin"  # behind a register's name: the register that says whence its value came
SHUFFLED = "?shuffled"

_Origin = Callable[[Any, Mask], Array]  # machine, mask → of the value that a step is to make


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
    origin = _origin(compiler, instruction)
    into = [compiler.flags[name] for name in destinations(instruction) if name in compiler.flags]

    def run(machine: Any, mask: Mask) -> None:
        if machine.hazards is None:
            step(machine, mask)
            return
        regs, carried = machine.regs, origin(machine, mask)
        step(machine, mask)
        for flag in into:
            regs[flag] = carried if mask is None else np.where(mask, carried, regs[flag])

    return run


def _origin(compiler: Compiler, instruction: Instruction) -> _Origin:
    if instruction.mnemonic == "selp":
        return _selected(compiler, instruction)
    if instruction.mnemonic == "shfl" and _name(instruction.operands[1]) in compiler.flags:
        return _shuffled(compiler, instruction)
    return _any_of(
        compiler, [compiler.flags[n] for n in sources(instruction) if n in compiler.flags]
    )


def _any_of(compiler: Compiler, flags: list[int]) -> _Origin:
    here = np.uint32(compiler.at + 1)

    def origin(machine: Any, mask: Mask) -> Array:
        worst = machine.regs[flags[0]]
        for flag in flags[1:]:
            worst = np.maximum(worst, machine.regs[flag])
        return np.where(worst == UNSET, here, worst)

    return origin


def _selected(compiler: Compiler, instruction: Instruction) -> _Origin:
    """selp takes one of two: the other may be what it likes."""
    _, first, second, which = instruction.operands
    holds = compiler.source(which, "pred")
    nothing = np.zeros((1, 1, 1), np.uint32)
    one, other, third = (_of_operand(compiler, each) for each in (first, second, which))

    def origin(machine: Any, mask: Mask) -> Array:
        of_one, of_other, of_third = (
            nothing if each is None else each(machine, mask) for each in (one, other, third)
        )
        chosen: Array = np.where(holds(machine.regs), of_one, of_other)
        return np.maximum(chosen, of_third)

    return origin


def _of_operand(compiler: Compiler, operand: Any) -> _Origin | None:
    flag = compiler.flags.get(_name(operand))
    return None if flag is None else _any_of(compiler, [flag])


def _shuffled(compiler: Compiler, instruction: Instruction) -> _Origin:
    """The origins go where the values go."""
    value, *rest = instruction.operands[1:]
    origin_of_value = Register(_name(value) + ORIGIN)
    moved = replace(instruction, operands=(Register(SHUFFLED), origin_of_value, *rest))
    step, slot = build_step(compiler, moved), compiler.slot_of[SHUFFLED]
    here = np.uint32(compiler.at + 1)

    def origin(machine: Any, mask: Mask) -> Array:
        step(machine, mask)
        carried = machine.regs[slot]
        return np.where(carried == UNSET, here, carried)

    return origin


def _name(operand: Any) -> str:
    return operand.name if isinstance(operand, Register) else ""
