"""Multiply-adds of fp32 that follow each other and need nothing of each other: computed together.

A kernel without Tensor Cores has 64 of them in a row for each k. On the 256 lanes of a block one
costs NumPy twelve calls, which take longer than the arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.exact import fma32

if TYPE_CHECKING:
    from tilewright.emulator.arrays import Mask
    from tilewright.emulator.compiler import Compiler
    from tilewright.emulator.ir import Instruction
    from tilewright.emulator.ops.registry import Step

LEAST = 4  # fewer go one by one
_ELEMENTS = 1 << 15  # of all at once: the float64 numbers between should stay in the cache


class Joiner:
    """Appends the steps of a basic block to its list, multiply-adds together where that can be."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._places: list[tuple[int, ...]] = []  # slots of d, a, b and c
        self._waiting: list[Step] = []
        self._written: set[int] = set()

    def add(self, step: Step, places: tuple[int, ...] | None = None) -> None:
        """`places` are those of a multiply-add that `step` executes, from `places_of`."""
        if places is None or not self._written.isdisjoint(places):
            self.flush()
        if places is None:
            self._steps.append(step)
            return
        self._places.append(places)
        self._waiting.append(step)
        self._written.add(places[0])

    def flush(self) -> None:
        """What has been added is in the list."""
        if len(self._waiting) < LEAST:
            self._steps += self._waiting
        else:
            self._steps.append(_together(self._places, self._waiting))
        self._places, self._waiting, self._written = [], [], set()


def places_of(compiler: Compiler, instruction: Instruction) -> tuple[int, ...] | None:
    """The slots of an fma that is nothing but arithmetic on registers of fp32; None for others."""
    if instruction.opcode != "fma.rn.f32" or instruction.guard is not None:
        return None
    if compiler.register_sets.touched(instruction) is not None:
        return None
    slots = tuple(compiler.slot(operand, "f32") for operand in instruction.operands)
    return None if None in slots else tuple(slot for slot in slots if slot is not None)


def _together(places: list[tuple[int, ...]], steps: list[Step]) -> Step:
    used = sorted({slot for _, *sources in places for slot in sources})

    def run(machine: Any, mask: Mask) -> None:
        regs = machine.regs
        shape = np.broadcast_shapes(*{regs[slot].shape for slot in used})
        lanes = shape[0] * shape[1] * shape[2]
        count = _ELEMENTS // lanes
        if count < LEAST:
            for step in steps:
                step(machine, mask)
            return
        for first in range(0, len(places), count):
            into, *sources = zip(*places[first : first + count], strict=True)
            factors = np.empty((3, len(into), *shape), np.float32)
            for each, slots in zip(factors, sources, strict=True):
                for row, slot in zip(each, slots, strict=True):
                    row[...] = regs[slot]
            for slot, value in zip(into, fma32(*factors), strict=True):
                regs[slot] = value if mask is None else np.where(mask, value, regs[slot])

    return run
