"""shfl.sync and bar.warp.sync. PTX ISA, "shfl.sync", "bar.warp.sync"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.barrier_forms import is_barrier
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Instruction, Pair
from tilewright.emulator.machine import Machine
from tilewright.emulator.operands import destinations, sources
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op


@op("shfl", r"\.sync\.(?P<mode>up|down|bfly|idx)\.b32", "Data Movement: shfl.sync")
def shfl(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """A lane whose partner lies outside its segment keeps its own value, with predicate false."""
    into, value, lane, clamp, members = ins.operands
    compiler.source(members, "b32")  # no more than understood: lanes that meet run together
    first, second = (into.first, into.second) if isinstance(into, Pair) else (into, None)
    put, at = compiler.dest(first, "b32"), compiler.at
    put_valid = compiler.dest(second, "pred") if second is not None else None
    read, offset = compiler.source(value, "b32"), compiler.source(lane, "u32")
    control, partner = compiler.source(clamp, "u32"), _PARTNER[g["mode"]]
    loaded = _is_loaded(compiler)

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        here = np.arange(32, dtype=np.int64).reshape(1, 1, 32)
        bits = control(regs).astype(np.int64)
        segment, bound = bits >> 8 & 31, bits & 31
        low = here & segment
        high = low | (bound & ~segment)
        there, valid = partner(here, offset(regs).astype(np.int64) & 31, low, high, segment)
        there = np.broadcast_to(np.where(valid, there, here), machine.full)
        machine.check_partners(at, there, valid, mask)
        values = np.broadcast_to(read(regs), machine.full)
        put(regs, np.take_along_axis(values, there, 2), mask)
        if put_valid is not None:
            put_valid(regs, valid, mask)
        if loaded:
            machine.shuffled(mask)

    return step


def _is_loaded(compiler: Compiler) -> bool:
    """Whether what this shuffle passes on, or from where, came of a load since the last barrier.

    Such a load is done when the shuffle is. It is looked for upwards in the text alone.
    """
    instructions, at = compiler.kernel.instructions, compiler.at
    wanted = set(sources(instructions[at]))
    for before in reversed(instructions[max(0, at - _LOOK_BACK) : at]):
        if is_barrier(before):
            return False
        if not wanted.isdisjoint(destinations(before)):
            if before.mnemonic == "ld":
                return True
            wanted.update(sources(before))
    return False


_LOOK_BACK = 64  # instructions


def _up(here: Array, b: Array, low: Array, high: Array, segment: Array) -> tuple[Array, Array]:
    return here - b, here - b >= high  # for up the clamp is 0: the bound is the segment's start


def _down(here: Array, b: Array, low: Array, high: Array, segment: Array) -> tuple[Array, Array]:
    return here + b, here + b <= high


def _bfly(here: Array, b: Array, low: Array, high: Array, segment: Array) -> tuple[Array, Array]:
    return here ^ b, (here ^ b) <= high


def _idx(here: Array, b: Array, low: Array, high: Array, segment: Array) -> tuple[Array, Array]:
    target = low | (b & ~segment)
    return target, target <= high


_PARTNER: dict[str, Callable[..., tuple[Array, Array]]] = {
    "up": _up,
    "down": _down,
    "bfly": _bfly,
    "idx": _idx,
}


@op("bar", r"\.warp\.sync", "bar.warp.sync")
def bar_warp_sync(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Lanes that meet at a program counter run together already; it orders their accesses."""
    (members,) = ins.operands
    compiler.source(members, "b32")
    return lambda machine, mask: machine.sync_warps(mask)
