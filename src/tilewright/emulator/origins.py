"""Whence values come that nothing wrote: how each instruction carries them on.

An *origin* is a word for a register of up to 32 bits and of two halves: 0 for what was written,
`NEVER` for what was not, else 1 + the index of the instruction that first read it. Halves matter,
because compilers pack one 16-bit value and nothing beside it, and later take that one out again.
Of wider registers both halves are alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.ir import Immediate, Instruction, Operand, Register, Vector
from tilewright.emulator.operands import destinations, sources
from tilewright.emulator.ops.registry import build_step

if TYPE_CHECKING:
    from tilewright.emulator.compiler import Compiler, Fetch

ORIGIN = "?origin"  # behind a register's name: the register that holds its value's origin
SHUFFLED = "?shuffled"
NEVER = 0xFFFF
_LATEST = 0xFFFE  # instructions from here on are not told apart
_HALF = np.uint32(16)
_NOTHING = np.zeros((1, 1, 1), np.uint32)

Origins = Callable[[Any, Mask], list[Array]]  # machine, mask → one for each register written

# Whose halves do not meet: bit by bit, or two numbers side by side.
_SIDE_BY_SIDE = re.compile(
    r"(?:mov|and|or|xor|not|lop3)\.b32$"
    r"|(?:add|sub|mul|fma|neg|abs|min|max|tanh|ex2)\.(?:\w+\.)*b?f16x2$"
)
_PACKED = re.compile(r"cvt\.(?:\w+\.)*b?f16x2\.f32$")
_NARROWED = re.compile(r"cvt\.[us](?:8|16)\.[us]32$")


def origins_of(compiler: Compiler, instruction: Instruction) -> Origins:
    """The origins of what an instruction writes, before it writes it."""
    move = _move(compiler, instruction)
    here = np.uint32(min(compiler.at + 1, _LATEST))

    def origins(machine: Any, mask: Mask) -> list[Array]:
        return [_known(origin, here) for origin in move(machine, mask)]

    return origins


def _move(compiler: Compiler, instruction: Instruction) -> Origins:
    opcode, operands = instruction.opcode, instruction.operands
    if instruction.mnemonic == "selp":
        return _selected(compiler, instruction)
    if instruction.mnemonic == "shfl" and _flag(compiler, operands[1]) is not None:
        return _shuffled(compiler, instruction)
    if opcode == "mov.b32" and any(isinstance(each, Vector) for each in operands[:2]):
        return _halves(compiler, *operands[:2])
    if _PACKED.match(opcode) and len(operands) == 3:
        return _joined(compiler, operands[2], operands[1])
    if opcode == "prmt.b32" and isinstance(operands[-1], Immediate):
        return _permuted(compiler, operands[1], operands[2], operands[-1].value)
    if opcode in ("shl.b32", "shr.u32") and operands[-1] == Immediate(16):
        return _shifted(compiler, operands[1], opcode == "shl.b32")
    if _NARROWED.match(opcode):
        return _single(compiler, operands[1], lambda origin: _both(_low(origin)))
    if _SIDE_BY_SIDE.match(opcode):
        return _side_by_side(compiler, instruction)
    return _mixed(compiler, instruction)


def _mixed(compiler: Compiler, instruction: Instruction) -> Origins:
    """Every bit of the result may depend on every bit of the operands."""
    reads = [_slot(compiler.flags[n]) for n in sources(instruction) if n in compiler.flags]
    count = len(list(destinations(instruction)))

    def move(machine: Any, mask: Mask) -> list[Array]:
        return [_both(_worst([read(machine.regs) for read in reads]))] * count

    return move


def _side_by_side(compiler: Compiler, instruction: Instruction) -> Origins:
    reads = [_masked(compiler, each, instruction) for each in instruction.operands[1:]]

    def move(machine: Any, mask: Mask) -> list[Array]:
        each = [read(machine.regs) for read in reads]
        lows, highs = [_low(origin) for origin in each], [_high(origin) for origin in each]
        return [_joint(_max(lows), _max(highs))]

    return move


def _masked(compiler: Compiler, operand: Operand, instruction: Instruction) -> Fetch:
    """An operand's origin; an `and` with a constant leaves nothing of halves that it clears."""
    read = _origin(compiler, operand)
    others = [each for each in instruction.operands[1:] if isinstance(each, Immediate)]
    if instruction.opcode != "and.b32" or not others:
        return read
    kept = sum(0xFFFF << at for at in (0, 16) if others[0].value >> at & 0xFFFF)
    return lambda regs: read(regs) & np.uint32(kept)


def _halves(compiler: Compiler, into: Operand, value: Operand) -> Origins:
    """mov.b32 between a word and its two halves; four bytes are not told apart."""
    if isinstance(value, Vector):
        if len(value.items) == 2:
            return _joined(compiler, *value.items)
        reads = [_origin(compiler, item) for item in value.items]
        return lambda machine, mask: [_both(_worst([read(machine.regs) for read in reads]))]
    read = _origin(compiler, value)
    assert isinstance(into, Vector)  # one of the two is
    named = [isinstance(item, Register) for item in into.items]

    def move(machine: Any, mask: Mask) -> list[Array]:
        origin = read(machine.regs)
        parts = [_both(_low(origin)), _both(_high(origin))]
        if len(named) != 2:
            parts = [_both(_worst([origin]))] * len(named)
        return [part for part, is_named in zip(parts, named, strict=True) if is_named]

    return move


def _joined(compiler: Compiler, low: Operand, high: Operand) -> Origins:
    first, second = _origin(compiler, low), _origin(compiler, high)

    def move(machine: Any, mask: Mask) -> list[Array]:
        return [_joint(_worst([first(machine.regs)]), _worst([second(machine.regs)]))]

    return move


def _permuted(compiler: Compiler, first: Operand, second: Operand, selector: int) -> Origins:
    """prmt.b32 with a constant: each half of the result has two bytes of the operands."""
    reads = _origin(compiler, first), _origin(compiler, second)
    places = [selector >> 4 * byte & 7 for byte in range(4)]

    def move(machine: Any, mask: Mask) -> list[Array]:
        one, other = (read(machine.regs) for read in reads)
        quarters = [_low(one), _high(one), _low(other), _high(other)]
        low, high = (_max([quarters[p // 2] for p in places[at : at + 2]]) for at in (0, 2))
        return [_joint(low, high)]

    return move


def _shifted(compiler: Compiler, operand: Operand, left: bool) -> Origins:
    if left:
        return _single(compiler, operand, lambda origin: _low(origin) << _HALF)
    return _single(compiler, operand, _high)


def _single(compiler: Compiler, operand: Operand, change: Callable[[Array], Array]) -> Origins:
    read = _origin(compiler, operand)
    return lambda machine, mask: [change(read(machine.regs))]


def _selected(compiler: Compiler, instruction: Instruction) -> Origins:
    """selp takes one of two: the other may be what it likes."""
    _, first, second, which = instruction.operands
    holds = compiler.source(which, "pred")
    reads = [_origin(compiler, each) for each in (first, second, which)]

    def move(machine: Any, mask: Mask) -> list[Array]:
        regs = machine.regs
        one, other, third = (read(regs) for read in reads)
        chosen: Array = np.where(holds(regs), one, other)
        doubt = _worst([third])
        return [np.where(doubt != 0, _both(doubt), chosen)]

    return move


def _shuffled(compiler: Compiler, instruction: Instruction) -> Origins:
    """The origins go where the values go."""
    value, *rest = instruction.operands[1:]
    assert isinstance(value, Register)  # it has a flag
    moved = replace(
        instruction, operands=(Register(SHUFFLED), Register(value.name + ORIGIN), *rest)
    )
    step, slot = build_step(compiler, moved), compiler.slot_of[SHUFFLED]
    count = len(list(destinations(instruction)))

    def move(machine: Any, mask: Mask) -> list[Array]:
        step(machine, mask)
        return [machine.regs[slot]] + [_NOTHING] * (count - 1)

    return move


def _origin(compiler: Compiler, operand: Operand) -> Fetch:
    flag = _flag(compiler, operand)
    return _slot(flag) if flag is not None else lambda regs: _NOTHING


def _flag(compiler: Compiler, operand: Operand) -> int | None:
    return compiler.flags.get(operand.name) if isinstance(operand, Register) else None


def _slot(slot: int) -> Fetch:
    return lambda regs: regs[slot]


def _low(origin: Array) -> Array:
    return origin & np.uint32(0xFFFF)


def _high(origin: Array) -> Array:
    return origin >> _HALF


def _both(half: Array) -> Array:
    return _joint(half, half)


def _joint(low: Array, high: Array) -> Array:
    word: Array = low | high << _HALF
    return word


def _worst(origins: Sequence[Array]) -> Array:
    """One half: of all halves."""
    return _max([half for origin in origins for half in (_low(origin), _high(origin))])


def _max(halves: Sequence[Array]) -> Array:
    worst = halves[0]
    for half in halves[1:]:
        worst = np.maximum(worst, half)
    return worst


def _known(origin: Array, here: np.uint32) -> Array:
    """The halves that nothing wrote are first read here."""
    low, high = _low(origin), _high(origin)
    low = np.where(low == NEVER, here, low)
    return _joint(low, np.where(high == NEVER, here, high))
