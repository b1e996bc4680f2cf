"""Instructions without an effect here: fences, prefetches, hints to caches and the scheduler.

The machine does memory accesses in program order, blocks of a chunk in lockstep, so that a fence
has nothing to order; a cache holds nothing that memory does not. Their operands are checked.
"""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import Mask
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Immediate, Instruction, Operand
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op

_SYNC = "Parallel Synchronization and Communication Instructions"
_MOVEMENT = "Data Movement and Conversion Instructions"
_CONTROL = "Miscellaneous Instructions"
_SCOPE = r"(?:cta|cluster|gpu|sys)"
_PROXY = r"\.proxy\.(?:alias|async(?:\.global|\.shared::(?:cta|cluster))?)"
_LINE = 128  # bytes that discard and applypriority name


def _nothing(machine: Machine, mask: Mask) -> None:
    """The step of a hint."""


@op("membar", r"\.(?:cta|gl|sys)", f"{_SYNC}: membar")
@op("fence", rf"(?:\.(?:sc|acq_rel|acquire|release))?\.{_SCOPE}", f"{_SYNC}: fence")
def fence(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Memory needs none here; what a later atomic tells other threads lies before it."""
    if ins.operands:
        raise ValueError(f"{ins.opcode} takes none")
    return lambda machine, mask: machine.fence(mask)


@op("membar", _PROXY, f"{_SYNC}: membar")
@op("fence", _PROXY, f"{_SYNC}: fence")
def fence_proxy(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Between accesses of threads and those of copies; other proxies are not told apart."""
    if ins.operands:
        raise ValueError(f"{ins.opcode} takes none")
    return _nothing if "alias" in ins.opcode else lambda machine, mask: machine.fence_proxy(mask)


@op("fence", r"\.mbarrier_init\.release\.cluster", f"{_SYNC}: fence")
def fence_init(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    if ins.operands:
        raise ValueError(f"{ins.opcode} takes none")
    return lambda machine, mask: machine.fence_init(mask)


@op("fence", r"(?:\.proxy\.async::generic)?\.acquire\.sync_restrict::shared::cluster\.cluster",
    f"{_SYNC}: fence")  # fmt: skip
@op("fence", r"(?:\.proxy\.async::generic)?\.release\.sync_restrict::shared::cta\.cluster",
    f"{_SYNC}: fence")  # fmt: skip
@op("griddepcontrol", r"\.(?:launch_dependents|wait)", f"{_SYNC}: griddepcontrol")
def bare(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    if ins.operands:
        raise ValueError(f"{ins.opcode} takes none")
    return _nothing


@op("discard", r"(?:\.global)?\.L2", f"{_MOVEMENT}: discard")
@op("applypriority", r"(?:\.global)?\.L2::evict_normal", f"{_MOVEMENT}: applypriority")
def line(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    address, size = ins.operands
    compiler.address(address)
    if not isinstance(size, Immediate) or size.value != _LINE:
        raise ValueError(f"the size must be {_LINE}")
    return _nothing


@op("prefetch", r"(?:\.global|\.local)?\.L[12]", f"{_MOVEMENT}: prefetch")
@op("prefetch", r"\.global\.L2::evict_(?:last|normal)", f"{_MOVEMENT}: prefetch")
@op("prefetch", r"(?:\.const|\.param)?\.tensormap", f"{_MOVEMENT}: prefetch")
@op("prefetchu", r"\.L1", f"{_MOVEMENT}: prefetchu")
def prefetch(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    (address,) = ins.operands
    compiler.address(address)
    return _nothing


@op("nanosleep", r"\.u32", f"{_CONTROL}: nanosleep")
def nanosleep(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    (duration,) = ins.operands
    compiler.source(duration, "u32")
    return _nothing


@op("setmaxnreg", r"\.(?P<way>inc|dec)\.sync\.aligned\.u32", f"{_CONTROL}: setmaxnreg")
def setmaxnreg(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    (count,) = ins.operands
    if not isinstance(count, Immediate) or not 24 <= count.value <= 256 or count.value % 8:
        raise ValueError("the count must be a constant from 24 to 256 in steps of 8")
    at, registers, more = compiler.at, count.value, g["way"] == "inc"
    return lambda machine, mask: machine.register_pool.set(at, mask, registers, more)


_POLICY = r"L2::evict_(?:last|normal|first|unchanged)"


@op("createpolicy", rf"\.fractional\.{_POLICY}(?:\.L2::evict_(?:first|unchanged))?\.b64",
    f"{_MOVEMENT}: createpolicy")  # fmt: skip
def createpolicy(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """A cache policy is opaque and nothing here depends on it: 0."""
    into, *fraction = ins.operands
    if len(fraction) > 1:
        raise ValueError("more than a fraction")
    for operand in fraction:
        compiler.source(operand, "f32")
    return _policy(compiler, into)


@op("createpolicy", rf"\.range(?:\.global)?\.{_POLICY}(?:\.L2::evict_(?:first|unchanged))?\.b64",
    f"{_MOVEMENT}: createpolicy")  # fmt: skip
def createpolicy_range(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, where, *sizes = ins.operands
    if len(sizes) != 2:
        raise ValueError("a range has an address, a size and a total size")
    compiler.address(where)
    for operand in sizes:
        compiler.source(operand, "u32")
    return _policy(compiler, into)


@op("createpolicy", r"\.cvt\.L2\.b64", f"{_MOVEMENT}: createpolicy")
def createpolicy_convert(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, operand = ins.operands
    compiler.source(operand, "b64")
    return _policy(compiler, into)


def _policy(compiler: Compiler, into: Operand) -> Step:
    put, policy = compiler.dest(into, "b64"), np.zeros((1, 1, 1), np.uint64)
    return lambda machine, mask: put(machine.regs, policy, mask)
