"""Registers that may be read before anything wrote them: what a run must look at."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.emulator.flow import BasicBlock, followers
from tilewright.emulator.ir import (
    Address,
    Instruction,
    Kernel,
    Operand,
    Pair,
    Register,
    Vector,
)

# Instructions whose first operand is no destination.
_NO_DESTINATION = ("st", "red", "bra", "cp", "stmatrix", "ret", "exit", "call",
                   "prefetch", "prefetchu", "discard", "applypriority", "membar", "fence",
                   "nanosleep", "setmaxnreg", "griddepcontrol", "trap", "brkpt")  # fmt: skip


def unset_reads(kernel: Kernel, blocks: list[BasicBlock]) -> dict[int, tuple[str, ...]]:
    """Instruction → registers that it reads and that some way to it leaves unwritten.

    A write under a guard counts as none, so that a run has to look what was true.
    """
    everything = frozenset(kernel.registers)
    at_start: list[frozenset[str]] = [everything] * len(blocks)
    if not blocks:
        return {}
    at_start[0] = frozenset()
    written = [_written_in(kernel, block) for block in blocks]
    todo = [0]
    seen = {0}
    while todo:
        number = todo.pop()
        after = at_start[number] | written[number]
        for follower in followers(blocks, number):
            if follower >= len(blocks):
                continue
            met = at_start[follower] & after
            if met != at_start[follower] or follower not in seen:
                seen.add(follower)
                at_start[follower] = met
                todo.append(follower)
    found: dict[int, tuple[str, ...]] = {}
    for number in seen:
        known = set(at_start[number])
        block = blocks[number]
        for at in range(block.first, block.last):
            instruction = kernel.instructions[at]
            names = dict.fromkeys(
                name for name in _read(instruction) if name not in known and name in everything
            )
            if names:
                found[at] = tuple(names)
            if instruction.guard is None:
                known |= set(_written(instruction))
    return found


def _written_in(kernel: Kernel, block: BasicBlock) -> frozenset[str]:
    return frozenset(
        name
        for instruction in kernel.instructions[block.first : block.last]
        if instruction.guard is None
        for name in _written(instruction)
    )


def _has_destination(instruction: Instruction) -> bool:
    if instruction.mnemonic in ("bar", "barrier"):
        return ".red." in instruction.opcode and bool(instruction.operands)
    store = ".store" in instruction.opcode
    return bool(instruction.operands) and instruction.mnemonic not in _NO_DESTINATION and not store


def _written(instruction: Instruction) -> Iterator[str]:
    if _has_destination(instruction):
        yield from _names(instruction.operands[0], addresses=False)


def _read(instruction: Instruction) -> Iterator[str]:
    if instruction.guard is not None:
        yield instruction.guard.name
    sources = instruction.operands[1 if _has_destination(instruction) else 0 :]
    if instruction.opcode.startswith(("xor", "sub")) and len(set(sources)) == 1:
        return  # a register against itself is a way to write zero
    for operand in sources:
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
        case Pair(first=first, second=second):
            yield from _names(first, addresses)
            yield from _names(second, addresses)
