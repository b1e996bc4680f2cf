"""Which instructions use the registers that a kernel's wgmma work on; found when it is built."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.emulator.arrays import Mask
from tilewright.emulator.ir import Instruction, Kernel, Operand, Register, Vector
from tilewright.emulator.operands import destinations, sources
from tilewright.emulator.ops.registry import Step

if TYPE_CHECKING:
    from tilewright.emulator.compiler import Compiler

_MULTIPLY = "wgmma.mma_async"


@dataclass(frozen=True, slots=True)
class Touched:
    """What an instruction other than wgmma does to sets of registers, by their numbers.

    `moves`: it only copies, as compilers do without a meaning and wherever they like.
    """

    written: list[int]  # sets of accumulators
    read: list[int]
    fragments: list[int]  # sets of A that it writes
    moves: bool


class RegisterSets:
    """The sets of registers that stand for D, and those for A, numbered in program order."""

    def __init__(self, kernel: Kernel) -> None:
        self.sums: dict[tuple[str, ...], int] = {}
        self.fragments: dict[tuple[str, ...], int] = {}
        self._sums_of: dict[str, set[int]] = {}
        self._fragments_of: dict[str, set[int]] = {}
        for instruction in kernel.instructions:
            if instruction.opcode.startswith(_MULTIPLY):
                into, a, *_ = (*instruction.operands, None, None)
                _add(self.sums, self._sums_of, into)
                _add(self.fragments, self._fragments_of, a)

    def names(self, operand: Operand) -> tuple[str, ...]:
        """The registers of a vector, by which its set is found."""
        return tuple(_names(operand))

    def overlapping(self, instruction: Instruction) -> list[int]:
        """Other sets of accumulators that have a register of this wgmma's D or A."""
        into, a, *_ = instruction.operands
        own = self.sums[self.names(into)]
        names = [*_names(into), *_names(a)]
        return sorted({number for name in names for number in self._sums_of.get(name, ())} - {own})

    def touched(self, instruction: Instruction) -> Touched | None:
        """What the instruction does to these sets; None where that is nothing."""
        if not self.sums or instruction.opcode.startswith(_MULTIPLY):
            return None
        into, given = list(destinations(instruction)), list(sources(instruction))
        found = Touched(
            _numbers(self._sums_of, into),
            _numbers(self._sums_of, given),
            _numbers(self._fragments_of, into),
            instruction.mnemonic == "mov",
        )
        return found if found.written or found.read or found.fragments else None


def touching(compiler: Compiler, instruction: Instruction, step: Step) -> Step:
    """A step that lets wgmma know when the instruction uses registers of theirs."""
    touched, at = compiler.register_sets.touched(instruction), compiler.at
    if touched is None:
        return step

    def run(machine: Any, mask: Mask) -> None:
        machine.warpgroups.touch(at, touched, mask)
        step(machine, mask)

    return run


def _add(sets: dict[tuple[str, ...], int], of: dict[str, set[int]], operand: Any) -> None:
    names = tuple(_names(operand)) if isinstance(operand, Vector) else ()
    if names:
        number = sets.setdefault(names, len(sets))
        for name in names:
            of.setdefault(name, set()).add(number)


def _names(operand: Any) -> Iterator[str]:
    items = operand.items if isinstance(operand, Vector) else ()
    yield from (item.name for item in items if isinstance(item, Register))


def _numbers(of: dict[str, set[int]], names: list[str]) -> list[int]:
    return sorted({number for name in names for number in of.get(name, ())})
