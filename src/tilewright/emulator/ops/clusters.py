"""Addresses within a cluster, which is one block here. PTX ISA, "mapa", "getctarank"."""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Address, Instruction
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op

_ISA = "Data Movement and Conversion Instructions"
_FORM = r"(?:\.shared::cluster)?\.(?P<type>u32|u64)"


@op("mapa", _FORM, f"{_ISA}: mapa")
def mapa(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The address of the same variable in block `rank` of the cluster, of which there is one."""
    into, where, rank = ins.operands
    put, at = compiler.dest(into, g["type"]), compiler.at
    if isinstance(where, Address):
        raise ValueError("the address is given without brackets")
    address, number = compiler.source(where, g["type"]), compiler.source(rank, "u32")

    def step(machine: Machine, mask: Mask) -> None:
        other: Array = np.broadcast_to(number(machine.regs) != 0, machine.full)
        wrong = other if mask is None else other & mask
        if wrong.any():
            what = "the cluster has one block, whose rank is 0"
            machine.fault("out-of-bounds", at, what, wrong)
        put(machine.regs, address(machine.regs), mask)

    return step


@op("getctarank", _FORM, f"{_ISA}: getctarank")
def getctarank(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The rank of the block that an address of shared memory belongs to: 0."""
    into, where = ins.operands
    put, none = compiler.dest(into, "u32"), np.zeros((1, 1, 1), np.uint32)
    compiler.source(where, g["type"])
    return lambda machine, mask: put(machine.regs, none, mask)
