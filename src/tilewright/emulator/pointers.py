"""Which of a kernel's pointers are stored through: arrays behind the others need no shadow."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewright.emulator.ir import (
    Address,
    Coordinates,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)
from tilewright.emulator.tensor_tokens import BASE_OFFSET

# Instructions through which a pointer goes on: the operands that may hold it are followed.
_FOLLOWED = ("add", "sub", "mov", "cvta", "mad", "selp", "and", "or", "cvt", "shfl", "min", "max")
_STORES = ("st", "atom", "red", "tensormap")
_BULK_STORE = re.compile(r"cp\.(?:reduce\.)?async\.bulk\.(?:tensor\.\dd\.)?global\b")


def written_params(kernel: Kernel) -> frozenset[int] | None:
    """Offsets of the parameters that stores and atomics of global memory go through.

    None when one of them cannot be told: then any array may be written.
    """
    offsets = {parameter.name: parameter.offset for parameter in kernel.params}
    makers: dict[str, list[Instruction]] = {}
    for instruction in kernel.instructions:
        for register in _written(instruction):
            makers.setdefault(register, []).append(instruction)
    found: set[int] = set()
    for instruction in kernel.instructions:
        if _BULK_STORE.match(instruction.opcode):
            traced = _bulk_target(instruction.operands[0], makers, offsets)
            if traced is None:
                return None
            found |= traced
            continue
        if not _stores(instruction):
            continue
        where = instruction.operands[1 if instruction.mnemonic == "atom" else 0]
        if not isinstance(where, Address):
            return None
        traced = _trace(where.base, makers, offsets, set())
        if traced is None:
            return None
        found |= traced
    return frozenset(found)


def _stores(instruction: Instruction) -> bool:
    """Whether it is a store or an atomic of global memory; changes of tensor maps are stores."""
    opcode = instruction.opcode
    if opcode.startswith("tensormap.cp_fenceproxy"):
        return True
    return instruction.mnemonic in _STORES and not _stays_inside(opcode)


def _bulk_target(
    operand: Operand, makers: dict[str, list[Instruction]], offsets: dict[str, int]
) -> set[int] | None:
    """Where a bulk copy goes: a pointer, or the tensor of a map, whose token holds its address."""
    if isinstance(operand, Address):
        return _trace(operand.base, makers, offsets, set())
    if not isinstance(operand, Coordinates):
        return None
    where = operand.items[0]
    if isinstance(where, (Register, Symbol)):
        where = Address(where)
    offset = _parameter(where, makers, offsets)
    return None if offset is None else {offset + BASE_OFFSET}


def _stays_inside(opcode: str) -> bool:
    """Accesses of shared, local and parameter space."""
    words = opcode.replace("::", ".").split(".")
    return any(word in words for word in ("shared", "local", "param"))


def _written(instruction: Instruction) -> Iterator[str]:
    if instruction.operands and instruction.mnemonic not in ("st", "red", "bra", "bar"):
        yield from _registers(instruction.operands[0])


def _registers(operand: Operand) -> Iterator[str]:
    match operand:
        case Register(name=name):
            yield name
        case Vector(items=items):
            for item in items:
                yield from _registers(item)
        case Pair(first=first, second=second):
            yield from _registers(first)
            yield from _registers(second)


def _parameter(
    where: Operand, makers: dict[str, list[Instruction]], offsets: dict[str, int]
) -> int | None:
    """The offset that an address in .param space names, also through a register."""
    if not isinstance(where, Address):
        return None
    base: Operand = where.base
    distance = where.offset
    while isinstance(base, Register):
        all_makers = makers.get(base.name, [])
        if len(all_makers) != 1 or all_makers[0].mnemonic not in ("mov", "add", "cvta"):
            return None
        made = all_makers[0]
        base, *added = made.operands[1:]
        for step in added:
            if not isinstance(step, Immediate):
                return None
            distance += _signed(step.value)
    if not isinstance(base, Symbol) or base.name not in offsets:
        return None
    return offsets[base.name] + base.offset + distance


def _signed(value: int) -> int:
    """A 64-bit immediate as the distance that it is."""
    return value - (1 << 64) if value >> 63 else value


def _trace(
    operand: Operand, makers: dict[str, list[Instruction]], offsets: dict[str, int], seen: set[str]
) -> set[int] | None:
    """The parameters that a pointer may come from; None where that cannot be told."""
    if isinstance(operand, (Immediate, Symbol)):
        return set()  # a number, or a variable of the module, which is always watched
    if not isinstance(operand, Register):
        return None
    if operand.name in seen:
        return set()
    seen.add(operand.name)
    found: set[int] = set()
    for maker in makers.get(operand.name, ()):
        if maker.opcode.startswith("ld.param"):
            offset = _parameter(maker.operands[1], makers, offsets)
            if offset is None:
                return None
            found.add(offset)
            continue
        if maker.mnemonic not in _FOLLOWED:
            if maker.mnemonic in ("mul", "shl", "shr", "neg", "bfe", "not", "sub", "xor", "rem"):
                continue  # a distance, not a pointer
            return None
        for source in maker.operands[1:]:
            if isinstance(source, Register):
                traced = _trace(source, makers, offsets, seen)
                if traced is None:
                    return None
                found |= traced
    return found
