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

# Whose result is one thing or lies in one place: an unset operand makes no value but a fault.
_NO_CARRIERS = frozenset(("ld", "ldu", "atom", "ldmatrix", "mma", "wmma", "vote", "match", "redux",
                          "elect", "call", "bar", "barrier"))  # fmt: skip
# Instructions whose first operand is no destination.
_NO_DESTINATION = ("st", "red", "bra", "bar", "barrier", "cp", "stmatrix", "ret", "exit", "call",
                   "prefetch", "prefetchu", "discard", "applypriority", "membar", "fence",
                   "nanosleep", "setmaxnreg", "griddepcontrol", "trap", "brkpt")  # fmt: skip


def carries(instruction: Instruction) -> bool:
    """Whether an unset operand only makes the result unset: nothing else comes of it yet."""
    return _has_destination(instruction) and instruction.mnemonic not in _NO_CARRIERS


def unset_values(kernel: Kernel, reads: dict[int, tuple[str, ...]]) -> dict[str, None]:
    """The registers of `reads` and all to which what lies in them may be carried."""
    found = dict.fromkeys(name for names in reads.values() for name in names)
    carriers = [one for one in kernel.instructions if carries(one)]
    before = -1
    while found and len(found) != before:
        before = len(found)
        for instruction in carriers:
            if any(name in found for name in sources(instruction)):
                found.update(dict.fromkeys(destinations(instruction)))
    return found


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
                known |= set(destinations(instruction))
    return found


def _written_in(kernel: Kernel, block: BasicBlock) -> frozenset[str]:
    return frozenset(
        name
        for instruction in kernel.instructions[block.first : block.last]
        if instruction.guard is None
        for name in destinations(instruction)
    )


def _has_destination(instruction: Instruction) -> bool:
    store = ".store" in instruction.opcode
    return bool(instruction.operands) and instruction.mnemonic not in _NO_DESTINATION and not store


def destinations(instruction: Instruction) -> Iterator[str]:
    """The registers that an instruction writes."""
    if _has_destination(instruction):
        yield from _names(instruction.operands[0], addresses=False)


def sources(instruction: Instruction) -> Iterator[str]:
    """The registers that an instruction's operands read, its guard left aside."""
    operands = instruction.operands[1 if _has_destination(instruction) else 0 :]
    if instruction.opcode.startswith(("xor", "sub")) and len(set(operands)) == 1:
        return  # a register against itself is a way to write zero
    for operand in operands:
        yield from _names(operand, addresses=True)


def _read(instruction: Instruction) -> Iterator[str]:
    if instruction.guard is not None:
        yield instruction.guard.name
    yield from sources(instruction)


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
