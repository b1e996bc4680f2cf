"""Which registers an instruction writes and which it reads."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.emulator.ir import (
    Address,
    Coordinates,
    Instruction,
    Operand,
    Pair,
    Register,
    Vector,
)

# Instructions whose first operand is no destination.
_NO_DESTINATION = ("st", "red", "bra", "cp", "stmatrix", "ret", "exit", "call",
                   "prefetch", "prefetchu", "discard", "applypriority", "membar", "fence",
                   "nanosleep", "setmaxnreg", "griddepcontrol", "tensormap", "trap",
                   "brkpt")  # fmt: skip
_MBARRIER = tuple(f"mbarrier.{verb}" for verb in ("init", "inval", "expect_tx", "complete_tx"))


def has_destination(instruction: Instruction) -> bool:
    if instruction.mnemonic in ("bar", "barrier"):
        return ".red." in instruction.opcode and bool(instruction.operands)
    if instruction.opcode.startswith(_MBARRIER):
        return False
    store = ".store" in instruction.opcode
    return bool(instruction.operands) and instruction.mnemonic not in _NO_DESTINATION and not store


def destinations(instruction: Instruction) -> Iterator[str]:
    """The registers that an instruction writes."""
    if has_destination(instruction):
        yield from _names(instruction.operands[0], addresses=False)


def sources(instruction: Instruction) -> Iterator[str]:
    """The registers that an instruction's operands read, its guard left aside."""
    operands = instruction.operands[1 if has_destination(instruction) else 0 :]
    if instruction.opcode.startswith(("xor", "sub")) and len(set(operands)) == 1:
        return  # a register against itself is a way to write zero
    for operand in operands:
        yield from _names(operand, addresses=True)


def _names(operand: Operand, addresses: bool) -> Iterator[str]:
    match operand:
        case Register(name=name):
            yield name
        case Address(base=Register(name=name)) if addresses:
            yield name
        case Vector(items=items):
            for item in items:
                yield from _names(item, addresses)
        case Coordinates(items=items) if addresses:
            for item in items:
                yield from _names(item, addresses)
        case Pair(first=first, second=second):
            yield from _names(first, addresses)
            yield from _names(second, addresses)
