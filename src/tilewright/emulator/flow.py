"""Basic blocks: where they are cut, what they end with, which of them loops poll memory in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from tilewright.emulator.barrier_forms import Barrier, ClusterWait, is_barrier
from tilewright.emulator.ir import Instruction, Kernel, Operand, Register, Symbol
from tilewright.emulator.operands import destinations
from tilewright.emulator.ops.registry import Step

if TYPE_CHECKING:
    from tilewright.emulator.compiler import Fetch

_MEMBERS = re.compile(r"(?:shfl|vote|match|redux|elect)\.(?:\w+\.)*sync\b|bar\.warp\.sync$")
_POLL = re.compile(
    r"^atom\b|^ld\..*\b(?:volatile|relaxed|acquire)\b|^nanosleep|^mbarrier\.t\w+_wait"
)
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
    barrier: Barrier | ClusterWait | None = None


def polls(kernel: Kernel, block: BasicBlock) -> bool:
    return poll_in(kernel, block) is not None


def poll_in(kernel: Kernel, block: BasicBlock) -> int | None:
    """The first instruction of the block that reads what other threads may write meanwhile."""
    here = range(block.first, block.last)
    found = [at for at in here if _POLL.search(kernel.instructions[at].opcode)]
    loads = [at for at in found if kernel.instructions[at].mnemonic != "nanosleep"]
    return next(iter(loads or found), None)


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
    """Basic blocks start at labels and after branches; a barrier is a block of its own.

    A block starts too where lanes meet that another member mask names, and before the first
    instruction for which whole warpgroups must come together.
    """
    edges = {0, len(kernel.instructions), *kernel.labels.values()}
    for at, instruction in enumerate(kernel.instructions):
        if is_barrier(instruction):
            edges |= {at, at + 1}
        elif instruction.opcode in ENDING:
            edges.add(at + 1)
    for first, last in list(pairwise(sorted(edges))):
        edges.update(_meetings(kernel, first, last))
        here = range(first, last)
        edges.update([at for at in here if needs_warpgroups(kernel.instructions[at])][:1])
    return list(pairwise(sorted(edges)))


def _meetings(kernel: Kernel, first: int, last: int) -> Iterator[int]:
    """Where between two edges other lanes meet than before: by member mask and guard."""
    known: tuple[Operand | None, Register | None] = (None, None)
    for at in range(first, last):
        instruction = kernel.instructions[at]
        mask = member_mask(instruction)
        here = (mask, instruction.guard)
        if (mask is not None or needs_whole_warps(instruction)) and here != known:
            if mask is not None or instruction.guard is not None or known[1] is not None:
                yield at
            known = here
        if any(isinstance(each, Register) and each.name in destinations(instruction)
               for each in known):  # fmt: skip
            known = (None, None)


def target_of(kernel: Kernel, instruction: Instruction, starts: dict[int, int]) -> int:
    """The basic block that a branch goes to; the one past the last is the kernel's end."""
    target = instruction.operands[0] if len(instruction.operands) == 1 else None
    if not isinstance(target, Symbol) or target.name not in kernel.labels:
        raise ValueError("its target is not a label of this kernel")
    return starts.get(kernel.labels[target.name], len(starts))


def needs_whole_warps(instruction: Instruction) -> bool:
    return ".aligned" in instruction.opcode and not is_barrier(instruction)


def needs_warpgroups(instruction: Instruction) -> bool:
    """Whether four warps must execute it together."""
    return needs_whole_warps(instruction) and instruction.mnemonic in ("wgmma", "setmaxnreg")


def member_mask(instruction: Instruction) -> Operand | None:
    """The operand that names the lanes which execute the instruction together, if it has one."""
    if not _MEMBERS.match(instruction.opcode) or not instruction.operands:
        return None
    return instruction.operands[-1]


def leaves(blocks: list[BasicBlock]) -> frozenset[int]:
    """The basic blocks in which lanes do nothing but end; one past the last is the kernel's end."""
    ending = {
        number
        for number, block in enumerate(blocks)
        if block.end is not None
        and block.end.mnemonic in ("ret", "exit")
        and block.end.guard is None
        and block.first + 1 == block.last
    }
    return frozenset(ending | {len(blocks)})
