"""Barrier instructions: what their words and operands say. PTX ISA, "bar", "barrier"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.emulator.arrays import LANES
from tilewright.emulator.ir import Immediate, Instruction, Operand

if TYPE_CHECKING:
    from tilewright.emulator.compiler import Compiler, Fetch, Put

_FORM = re.compile(
    r"(?:bar(?!.*\.aligned)|barrier)(?:\.cta)?\."
    r"(?:(?P<kind>sync|arrive)(?:\.aligned)?"
    r"|red\.(?:(?P<count>popc)(?:\.aligned)?\.u32|(?P<vote>and|or)(?:\.aligned)?\.pred))$"
)
_CLUSTER_WAIT = re.compile(r"barrier\.cluster\.wait(?:\.acquire)?(?:\.aligned)?$")
_BARRIERS = 16  # of a block, numbered from 0


@dataclass(frozen=True, slots=True)
class Barrier:
    """Number and count of threads are constants, or differ from lane to lane."""

    number: int | Fetch
    count: int | Fetch | None  # None = all threads of the block
    waits: bool = True  # else it only arrives
    reduction: str = ""  # popc, and, or
    predicate: Fetch | None = None  # what is reduced
    put: Put | None = None  # where the result goes


@dataclass(frozen=True, slots=True)
class ClusterWait:
    """barrier.cluster.wait, which acquires; arriving there is no wait."""


def is_barrier(instruction: Instruction) -> bool:
    """Whether threads of a block wait here, or arrive; or those of a cluster wait."""
    opcode = instruction.opcode
    return _FORM.match(opcode) is not None or _CLUSTER_WAIT.match(opcode) is not None


def barrier_of(compiler: Compiler, instruction: Instruction) -> Barrier | ClusterWait:
    """Compiles a barrier. Raises: ValueError for operands that it does not take."""
    form, operands = _FORM.match(instruction.opcode), instruction.operands
    if form is None:
        if operands:
            raise ValueError(f"{instruction.opcode} takes none")
        return ClusterWait()
    if form["kind"] == "arrive":
        if len(operands) != 2:
            raise ValueError("it takes a number and a count")
        return Barrier(*_numbers(compiler, operands), waits=False)
    if form["kind"] == "sync":
        if len(operands) not in (1, 2):
            raise ValueError("it takes a number and perhaps a count")
        return Barrier(*_numbers(compiler, operands))
    if len(operands) not in (3, 4):
        raise ValueError("it takes a destination, a number, perhaps a count, and a predicate")
    return Barrier(
        *_numbers(compiler, operands[1:-1]),
        reduction=form["count"] or form["vote"],
        predicate=compiler.source(operands[-1], "pred"),
        put=compiler.dest(operands[0], "u32" if form["count"] else "pred"),
    )


def problem(number: int, count: int | None) -> str | None:
    """What is wrong with these values, in words."""
    if not 0 <= number < _BARRIERS:
        return f"barrier {number} must be 0 to {_BARRIERS - 1}"
    if count is not None and (count <= 0 or count % LANES):
        return f"the count {count} must be a multiple of {LANES}"
    return None


def _numbers(
    compiler: Compiler, operands: tuple[Operand, ...]
) -> tuple[int | Fetch, int | Fetch | None]:
    values = [
        operand.value if isinstance(operand, Immediate) else compiler.source(operand, "u32")
        for operand in operands
    ]
    number, count = values[0], values[1] if len(values) > 1 else None
    known = number if isinstance(number, int) else 0, count if isinstance(count, int) else None
    if why := problem(*known):
        raise ValueError(why)
    return number, count
