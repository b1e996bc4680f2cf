"""Basic blocks: where they are cut, what they end with, which of them loops poll memory in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from tilewright.emulator.barrier_forms import Barrier, is_barrier
from tilewright.emulator.ir import Instruction, Kernel, Symbol
from tilewright.emulator.ops.registry import Step

if TYPE_CHECKING:
    from tilewright.emulator.compiler import Fetch

_POLL = re.compile(r"^atom\b|^ld\..*\b(?:volatile|relaxed|acquire)\b|^nanosleep|^test_wait")
ENDING = ("bra", "bra.uni", "ret", "ret.uni", "exit", "trap")


@dataclass(slots=True)
class BasicBlock:
    """Instructions that run together. `end` says what follows: a branch, an exit or a barrier."""

    first: int
    last: int  # one past its last instruction
    steps: list[Step] = field(default_factory=list)
    end: Instruction | None = None
    target: int = -1  # basic block a branch goes to
    guard: Fetch | None = None
    barrier: Barrier | None = None


def polls(kernel: Kernel, block: BasicBlock) -> bool:
    return any(
        _POLL.search(instruction.opcode)
        for instruction in kernel.instructions[block.first : block.last]
    )


def loops(blocks: list[BasicBlock], number: int) -> bool:
    """Whether the block can come after itself."""
    seen: set[int] = set()
    todo = followers(blocks, number)
    while todo:
        at = todo.pop()
        if at == number:
            return True
        if at not in seen and at < len(blocks):
            seen.add(at)
            todo += followers(blocks, at)
    return False


def followers(blocks: list[BasicBlock], number: int) -> list[int]:
    """The blocks that may come next; one past the last is the kernel's end."""
    block = blocks[number]
    goes_on = block.end is None or block.end.guard is not None or is_barrier(block.end)
    after = [number + 1] if goes_on else []
    return [*after, block.target] if block.target >= 0 else after


def cut(kernel: Kernel) -> list[tuple[int, int]]:
    """Basic blocks start at labels and after branches; a barrier is a block of its own."""
    edges = {0, len(kernel.instructions), *kernel.labels.values()}
    for at, instruction in enumerate(kernel.instructions):
        if is_barrier(instruction):
            edges |= {at, at + 1}
        elif instruction.opcode in ENDING:
            edges.add(at + 1)
    ordered = sorted(edges)
    return list(pairwise(ordered))


def target_of(kernel: Kernel, instruction: Instruction, starts: dict[int, int]) -> int:
    """The basic block that a branch goes to; the one past the last is the kernel's end."""
    target = instruction.operands[0] if len(instruction.operands) == 1 else None
    if not isinstance(target, Symbol) or target.name not in kernel.labels:
        raise ValueError("its target is not a label of this kernel")
    return starts.get(kernel.labels[target.name], len(starts))


def first_aligned(kernel: Kernel, block: BasicBlock) -> int | None:
    """The first instruction of a block that a whole warp must execute together."""
    for at in range(block.first, block.last):
        opcode = kernel.instructions[at].opcode
        if ".aligned" in opcode and not is_barrier(kernel.instructions[at]):
            return at
    return None
