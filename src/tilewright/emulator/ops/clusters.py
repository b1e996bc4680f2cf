"""Addresses within a cluster and its barrier. PTX ISA, "mapa", "getctarank", "barrier.cluster"."""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.cluster_space import mapped, rank_of
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Address, Instruction
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op

_ISA = "Data Movement and Conversion Instructions"
_SYNC = "Parallel Synchronization and Communication Instructions"
_FORM = r"(?:\.shared::cluster)?\.(?P<type>u32|u64)"


@op("mapa", _FORM, f"{_ISA}: mapa")
def mapa(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The address of the same variable in block `rank` of the cluster."""
    into, where, rank = ins.operands
    put, at = compiler.dest(into, g["type"]), compiler.at
    if isinstance(where, Address):
        raise ValueError("the address is given without brackets")
    address, number = compiler.source(where, g["type"]), compiler.source(rank, "u32")

    def step(machine: Machine, mask: Mask) -> None:
        which = number(machine.regs)
        other: Array = np.broadcast_to(which >= machine.peers, machine.full)
        wrong = other if mask is None else other & mask
        if wrong.any():
            blocks, last = f"{machine.peers} blocks", f"ranks are 0 to {machine.peers - 1}"
            if machine.peers == 1:
                blocks, last = "one block", "its rank is 0"
            machine.fault("out-of-bounds", at, f"the cluster has {blocks}, {last}", wrong)
            which = np.where(other, 0, which)
        put(machine.regs, mapped(machine, address(machine.regs), which), mask)

    return step


@op("getctarank", _FORM, f"{_ISA}: getctarank")
def getctarank(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The rank of the block that an address of shared memory belongs to."""
    into, where = ins.operands
    put, address = compiler.dest(into, "u32"), compiler.source(where, g["type"])

    def step(machine: Machine, mask: Mask) -> None:
        put(machine.regs, rank_of(machine, address(machine.regs)).astype(np.uint32), mask)

    return step


@op("barrier", r"\.cluster\.arrive(?:\.(?P<order>release|relaxed))?(?:\.aligned)?",
    f"{_SYNC}: barrier.cluster")  # fmt: skip
def arrive(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """barrier.cluster.wait, where lanes stay, is a basic block of its own."""
    if ins.operands:
        raise ValueError(f"{ins.opcode} takes none")
    at, releases = compiler.at, g["order"] != "relaxed"

    def step(machine: Machine, mask: Mask) -> None:
        lanes = machine.everyone if mask is None else np.broadcast_to(mask, machine.full)
        machine.cluster_barrier.arrive(at, lanes, releases)

    return step
