"""cp.async and its groups. PTX ISA, "Data Movement: Non-bulk copy"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import LANES, Array, Mask
from tilewright.emulator.compiler import Compiler, Fetch
from tilewright.emulator.counters import Price, priced, relative
from tilewright.emulator.ir import Immediate, Instruction, Operand, Register
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op
from tilewright.model import banks

_ISA = "Data Movement: cp.async"


@op("cp", r"\.async\.(?P<cache>ca|cg)\.shared(?:::cta)?\.global(?:\.L2::cache_hint)?"
    r"(?:\.L2::(?:64|128|256)B)?", _ISA)  # fmt: skip
def cp_async(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, source, size, *rest = ins.operands
    sizes = (16,) if g["cache"] == "cg" else (4, 8, 16)
    if not isinstance(size, Immediate) or size.value not in sizes or len(rest) > 1:
        raise ValueError("the size must be 4, 8 or 16 (.ca) or 16 (.cg)")
    width, at = size.value, compiler.at
    to, origin = compiler.address(into), compiler.address(source)
    full = not rest or (isinstance(rest[0], Immediate) and rest[0].value == width)
    used = None if full else _used(compiler, rest[0], width)
    cost = _Cost(at, width, g["cache"] == "cg", used is not None)

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        inside = machine.shared.access(machine.findings, at, to(regs), mask, width, LANES)
        if used is None:
            found = machine.memory.access(
                machine.findings, at, origin(regs), mask, width, machine.full
            )
            values = machine.memory.load(found)
        else:
            found, values = _partly(machine, at, origin(regs), mask, width, used(regs))
        cost.count(machine, inside, found)
        machine.copies.issue(machine.shared, inside, values)

    return step


def _used(compiler: Compiler, operand: Operand, width: int) -> Fetch:
    """How many bytes of the source a lane copies: src-size, or none where ignore-src holds."""
    if isinstance(operand, Register) and compiler.kernel.registers.get(operand.name) == "pred":
        ignore = compiler.source(operand, "pred")
        return lambda regs: np.where(ignore(regs), np.int64(0), np.int64(width))
    size = compiler.source(operand, "u32")
    return lambda regs: np.minimum(size(regs), width).astype(np.int64)


def _partly(
    machine: Machine, at: int, origin: Array, mask: Mask, width: int, used: Array
) -> tuple[Access, Array]:
    """Reads the first `used` bytes of each element; zeros follow.

    A lane that copies 0 bytes does not touch its source, one that copies a part only that part.
    """
    reads = used > 0 if mask is None else (used > 0) & mask
    found = machine.memory.access(
        machine.findings, at, origin, reads, width, machine.full, span=used
    )
    if ((used > 0) & (used < width)).any():
        return found, machine.memory.load_parts(found, used)
    values = machine.memory.load(found)
    return found, np.where(used > 0, values, values.dtype.type(0))


@dataclass(frozen=True, slots=True)
class _Cost:
    """Of one cp.async: the price depends on both ends, and on whether it may fill with zeros."""

    at: int
    width: int
    past: bool  # .cg
    fills: bool  # it has a source size, which is not the width

    def count(self, machine: Machine, inside: Access, found: Access) -> None:
        """A lane takes part if it has a target and, without a source size, a source."""
        copies = _both(inside.active, found.active)
        targets = relative(inside.address, inside.active if self.fills else copies)
        rows = [targets, relative(found.address, copies)]
        machine.counters.count(self.at, self._price(), self.width, rows, machine.blocks)

    def _price(self) -> Price:
        if self.fills:
            return priced(banks.cp_async_zfill, self.width, self.past)
        return priced(banks.cp_async_cg) if self.past else priced(banks.cp_async_ca, self.width)


def _both(one: Mask, other: Mask) -> Mask:
    if one is None or other is None:
        return other if one is None else one
    return one & other


@op("cp", r"\.async\.commit_group", _ISA)
def commit_group(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    _no_operands(ins)
    return lambda machine, mask: machine.copies.commit(mask)


@op("cp", r"\.async\.wait_group", _ISA)
def wait_group(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    (count,) = ins.operands
    if not isinstance(count, Immediate) or count.value < 0:
        raise ValueError("the number of groups must be a constant from 0 up")
    return _waiting(lambda: count.value)


@op("cp", r"\.async\.wait_all", _ISA)
def wait_all(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    _no_operands(ins)
    return _waiting(lambda: None)


def _no_operands(ins: Instruction) -> None:
    if ins.operands:
        raise ValueError(f"{ins.opcode} takes none")


def _waiting(pending: Callable[[], int | None]) -> Step:
    def step(machine: Machine, mask: Mask) -> None:
        machine.copies.wait(machine.shared, pending(), mask)
        machine.mbarriers.copies_landed()

    return step
