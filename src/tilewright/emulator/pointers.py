"""Which of a kernel's pointers are stored through: arrays behind the others need no shadow."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.emulator.ir import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

# Instructions through which a pointer goes on: the operands that may hold it are followed.
_FOLLOWED = ("add", "sub", "mov", "cvta", "mad", "selp", "and", "or", "cvt", "shfl", "min", "max")
_STORES = ("st", "atom", "red")


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
        if instruction.mnemonic not in _STORES or _stays_inside(instruction.opcode):
            continue
        where = instruction.operands[1 if instruction.mnemonic == "atom" else 0]
        if not isinstance(where, Address):
            return None
        traced = _trace(where.base, makers, offsets, set())
        if traced is None:
            return None
        found |= traced
    return frozenset(found)


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
            where = maker.operands[1]
            if not isinstance(where, Address) or not isinstance(where.base, Symbol):
                return None
            if where.base.name not in offsets:
                return None
            found.add(offsets[where.base.name] + where.base.offset + where.offset)
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
