"""What becomes of the values in registers: whether they are moved on only, or looked at."""

from __future__ import annotations

from collections import defaultdict
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

COPIED, STORED, USED = range(1, 4)  # within the thread, to other memory, in any other way


def uses(instructions: list[Instruction]) -> dict[str, int]:
    """Register → the most that any instruction does with what is in it."""
    found: dict[str, int] = defaultdict(int)
    moves: list[tuple[list[str], list[str]]] = []
    for instruction in instructions:
        into, *sources = instruction.operands or (None,)
        read = [name for source in sources for name in registers(source, addresses=True)]
        if instruction.guard is not None:
            found[instruction.guard.name] = USED
        if instruction.mnemonic == "mov":
            moves.append((list(registers(into)), read))
            continue
        if isinstance(into, (Address, Coordinates)):
            found.update(dict.fromkeys(registers(into, addresses=True), USED))
        for name in read:
            found[name] = max(found[name], _use(instruction))
    changed = True
    while changed:
        changed = False
        for written, read in moves:
            most = max((found[name] for name in written), default=USED)
            for name in read:
                changed |= found[name] < most
                found[name] = max(found[name], most)
    return dict(found)


def _use(instruction: Instruction) -> int:
    if instruction.mnemonic != "st":
        return USED
    own = {"local", "param"} & set(instruction.opcode.split("."))
    return COPIED if own else STORED


def registers(operand: Operand | None, addresses: bool = False) -> Iterator[str]:
    """The registers of an operand; with `addresses` those that an address is made of, too."""
    match operand:
        case Register(name=name):
            yield name
        case Address(base=Register(name=name)) if addresses:
            yield name
        case Coordinates(items=items) if addresses:
            for item in items:
                yield from registers(item, addresses)
        case Vector(items=items):
            for item in items:
                yield from registers(item, addresses)
        case Pair(first=first, second=second):
            yield from registers(first, addresses)
            yield from registers(second, addresses)
