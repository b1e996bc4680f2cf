"""Registers that may be read before anything wrote them: what a run must look at."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.emulator.flow import BasicBlock, followers
from tilewright.emulator.ir import Instruction, Kernel
from tilewright.emulator.operands import destinations, has_destination, sources

# Whose result is one thing or lies in one place: an unset operand makes no value but a fault.
_NO_CARRIERS = frozenset(("ld", "ldu", "atom", "ldmatrix", "mma", "wmma", "vote", "match", "redux",
                          "elect", "call", "bar", "barrier", "wgmma"))  # fmt: skip


def carries(instruction: Instruction) -> bool:
    """Whether an unset operand only makes the result unset: nothing else comes of it yet."""
    return has_destination(instruction) and instruction.mnemonic not in _NO_CARRIERS


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


def _read(instruction: Instruction) -> Iterator[str]:
    if instruction.guard is not None:
        yield instruction.guard.name
    yield from sources(instruction)
