"""cp.async and its groups. PTX ISA, "Data Movement: Non-bulk copy"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import LANES, Array, Mask
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.counters import Price, priced, relative
from tilewright.emulator.ir import Immediate, Instruction
from tilewright.emulator.machine import Machine
from tilewright.emulator.memory import Access
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op
from tilewright.model import banks

_ISA = "Data Movement: cp.async"


@op("cp", r"\.async\.(?P<cache>ca|cg)\.shared(?:::cta)?\.global(?:\.L2::(?:64|128|256)B)?", _ISA)
def cp_async(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, source, size, *rest = ins.operands
    if not isinstance(size, Immediate) or size.value not in (
        (16,) if g["cache"] == "cg" else (4, 8, 16)
    ):
        raise ValueError("the size must be 4, 8 or 16 (.ca) or 16 (.cg)")
    width, at = size.value, compiler.at
    to, origin = compiler.address(into), compiler.address(source)
    used = compiler.source(rest[0], "u32") if rest else None
    price = priced(banks.cp_async_cg) if g["cache"] == "cg" else priced(banks.cp_async_ca, width)

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        inside = machine.shared.access(machine.findings, at, to(regs), mask, width, LANES)
        reads = mask if used is None else _reading(used(regs), mask)
        found = machine.memory.access(
            machine.findings, at, origin(regs), reads, width, machine.full
        )
        values = machine.memory.load(found)
        if used is not None:
            values = _zero_filled(values, used(regs), width)
        _count(machine, at, price, width, inside, found)
        machine.copies.issue(inside, values)

    return step


def _reading(used: Array, mask: Mask) -> Array:
    """A lane that copies 0 bytes does not touch its source."""
    return used > 0 if mask is None else (used > 0) & mask


def _zero_filled(values: Array, used: Array, width: int) -> Array:
    """Keeps the first `used` bytes of each element and fills the rest with zeros."""
    raw = np.ascontiguousarray(values)[..., None].view(np.uint8)
    keep = np.arange(width) < np.broadcast_to(used, values.shape)[..., None]
    return np.where(keep, raw, np.uint8(0)).view(values.dtype)[..., 0]


def _count(
    machine: Machine, at: int, price: Price, width: int, inside: Access, found: Access
) -> None:
    """The price depends on both ends; a lane takes part if both of its ends are there."""
    active = inside.active if found.active is None else found.active
    if inside.active is not None and found.active is not None:
        active = inside.active & found.active
    rows = [relative(inside.address, active), relative(found.address, active)]
    machine.counters.count(at, price, width, rows, machine.blocks)


@op("cp", r"\.async\.commit_group", _ISA)
def commit_group(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return lambda machine, mask: machine.copies.commit(mask)


@op("cp", r"\.async\.wait_group", _ISA)
def wait_group(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    (count,) = ins.operands
    if not isinstance(count, Immediate):
        raise ValueError("the number of groups must be a constant")
    return _waiting(lambda: count.value)


@op("cp", r"\.async\.wait_all", _ISA)
def wait_all(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return _waiting(lambda: None)


def _waiting(pending: Callable[[], int | None]) -> Step:
    return lambda machine, mask: machine.copies.wait(machine.shared, pending(), mask)
