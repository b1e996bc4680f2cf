"""What the watch over memory wants to know of each instruction, found once for a launch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.flow import BasicBlock, loops
from tilewright.emulator.ir import Instruction, Kernel
from tilewright.emulator.uses import USED, registers, uses

_ATOMICS = ("atom", "red")
_STRONG = {"volatile", "relaxed", "acquire", "release", "mmio"}


@dataclass(frozen=True, slots=True)
class Traits:
    """One entry for each instruction."""

    instructions: list[Instruction]
    together: list[bool]  # the lanes of a warp execute it as one, after all that the warp did
    strong: list[bool]  # atomics, guesses, and what says volatile, relaxed, acquire or release
    atomic: list[bool]
    updates: list[bool]  # atomics whose result depends on what was there
    releases: list[bool]  # a fence of its own before it
    acquires: list[bool]  # a fence of its own behind it
    volatile: Array
    polls: Array  # loads that decide whether a loop goes on
    inits: Array  # mbarrier.init
    uses: dict[str, int]  # of registers
    padding: tuple[
        bool, ...
    ] = ()  # loads of bytes that are only moved on, as a struct's padding is
    uneven: bool = False  # whether some warps may be ordered that others know nothing of
    stores_beside: bool = False  # whether there are st.async or red.async
    copies: bool = False  # whether bulk copies or others that mbarriers count run beside the warps

    @classmethod
    def of(cls, kernel: Kernel, blocks: list[BasicBlock]) -> Traits:
        instructions = kernel.instructions
        words = [instruction.opcode.split(".") for instruction in instructions]
        polls = np.zeros(len(words), bool)
        polls[list(_polling(kernel, blocks))] = True
        guesses = _guesses(instructions)
        return cls(
            instructions,
            [_is_together(each) for each in words],
            [_is_strong(each) or at in guesses for at, each in enumerate(words)],
            [each[0] in _ATOMICS for each in words],
            [each[0] in _ATOMICS and "exch" not in each for each in words],
            [_is_access(it) and not {"release", "acq_rel"}.isdisjoint(it) for it in words],
            [_is_access(it) and not {"acquire", "acq_rel"}.isdisjoint(it) for it in words],
            np.array(["volatile" in each for each in words], bool),
            polls,
            np.array([each[:2] == ["mbarrier", "init"] for each in words], bool),
            how := uses(instructions),
            tuple(_moves_bytes(it, how) for it in instructions),
            any(_orders_some(it) for it in instructions),
            any(_stores_beside(each) for each in words),
            any(runs_beside(it) for it in instructions),
        )


def _moves_bytes(instruction: Instruction, how: dict[str, int]) -> bool:
    """A compiler copies what lies between the members of a struct in bytes.

    Of a tensor map it copies the half that says something; what is none is found when it is used.
    """
    if instruction.mnemonic == "tensormap":
        return True
    if instruction.mnemonic != "ld" or instruction.opcode[-3:] not in (".u8", ".s8", ".b8"):
        return False
    return all(how.get(name, 0) != USED for name in registers(instruction.operands[0]))


def runs_beside(instruction: Instruction) -> bool:
    """Instructions whose reads and writes go through the asynchronous proxy."""
    words = instruction.opcode.split(".")
    bulk = "bulk" in words and "async" in words and words[0] != "fence"
    return words[0] == "wgmma" or bulk or _stores_beside(words)


def _stores_beside(words: list[str]) -> bool:
    return words[:2] in (["st", "async"], ["red", "async"])


def _orders_some(instruction: Instruction) -> bool:
    """Barriers of a part of the block, and what flags and mbarriers need."""
    if instruction.opcode.startswith("barrier.cluster"):
        return True
    if instruction.mnemonic in ("bar", "barrier"):
        counted = len(instruction.operands) > 1 and ".red" not in instruction.opcode
        return counted or ".arrive" in instruction.opcode or len(instruction.operands) > 3
    return instruction.mnemonic in ("membar", "fence", "mbarrier") or not {
        "acquire",
        "release",
        "acq_rel",
    }.isdisjoint(instruction.opcode.split("."))


def _is_together(words: list[str]) -> bool:
    """Who ends an mbarrier has counted the others out, by atomics that order no lanes here."""
    return "aligned" in words or words[:2] == ["mbarrier", "inval"]


def _is_access(words: list[str]) -> bool:
    """Whether an order that it names is one of its own access: a fence orders others."""
    return words[0] not in ("fence", "tensormap")


def _is_strong(words: list[str]) -> bool:
    """An mbarrier's own instructions are atomics, but for those that begin and end it."""
    if not _is_access(words):
        return False
    if "mbarrier" in words:
        return words[1] not in ("init", "inval")
    return words[0] in _ATOMICS or words[:2] == ["cp", "reduce"] or not _STRONG.isdisjoint(words)


def _guesses(instructions: list[Instruction]) -> set[int]:
    """Loads whose value is only what a compare-and-swap expects to find.

    If another thread got in between, the swap fails and gives the value that is there: so the
    CUDA C++ Programming Guide writes atomics that the hardware has not, with a plain load.
    """
    expected = {
        name
        for it in instructions
        if it.mnemonic == "atom" and ".cas" in it.opcode and len(it.operands) == 4
        for name in registers(it.operands[2])
    }
    moves = [it for it in instructions if it.mnemonic == "mov" and len(it.operands) == 2]
    before = -1
    while before != len(expected):
        before = len(expected)
        for it in moves:
            if expected.intersection(registers(it.operands[0])):
                expected.update(registers(it.operands[1]))
    return {
        at
        for at, it in enumerate(instructions)
        if it.mnemonic == "ld" and it.operands and expected.issuperset(registers(it.operands[0]))
    }


def _polling(kernel: Kernel, blocks: list[BasicBlock]) -> Iterator[int]:
    for number, block in enumerate(blocks):
        end, here = block.end, kernel.instructions[block.first : block.last]
        if end is None or end.guard is None or not any(it.mnemonic == "ld" for it in here):
            continue
        if not loops(blocks, number):
            continue
        wanted = {end.guard.name}
        for at in reversed(range(block.first, block.last)):
            into, *sources = kernel.instructions[at].operands or (None,)
            if wanted.isdisjoint(registers(into)):
                continue
            if kernel.instructions[at].mnemonic == "ld":
                yield at
            for source in sources:
                wanted.update(registers(source))
