"""Votes, matches and reductions of a warp. PTX ISA, "Parallel Synchronization and Communication".

Lanes take part that are active where the instruction runs and that the member mask names. Those
that get there later, on another path, are not waited for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import LANES, TYPES, Array, Mask
from tilewright.emulator.compiler import Compiler, Fetch
from tilewright.emulator.ir import Instruction, Operand, Pair
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op

_ISA = "Parallel Synchronization and Communication Instructions"
_BITS = np.arange(LANES, dtype=np.uint32)


def ballot(machine: Machine, lanes: Array) -> Array:
    """A word a warp, [blocks, W, 1]: bit i is what lane i has."""
    full = np.broadcast_to(lanes, machine.full)
    return np.packbits(full, axis=-1, bitorder="little").view(np.uint32)


def _active(machine: Machine, mask: Mask) -> Array:
    return machine.everyone if mask is None else np.broadcast_to(mask, machine.full)


def _members(compiler: Compiler, operands: list[Operand], sync: object) -> Fetch:
    """The member mask that a .sync form ends with; of an older form all lanes."""
    if len(operands) != (1 if sync else 0):
        raise ValueError("a .sync form ends with a member mask, and no other")
    if sync:
        return compiler.source(operands[0], "b32")
    everyone = np.full((1, 1, 1), 0xFFFF_FFFF, np.uint32)
    return lambda regs: everyone


_VOTES: dict[str, Callable[[Array, Array], Array]] = {  # votes, who voted
    "all": lambda votes, members: votes == members,
    "any": lambda votes, members: votes != 0,
    "uni": lambda votes, members: (votes == members) | (votes == 0),
    "ballot": lambda votes, members: votes,
}


@op("vote", r"(?P<sync>\.sync)?\.(?P<vote>all|any|uni)\.(?P<type>pred)", f"{_ISA}: vote")
@op("vote", r"(?P<sync>\.sync)?\.(?P<vote>ballot)\.(?P<type>b32)", f"{_ISA}: vote")
def vote(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, operand, *rest = ins.operands
    put, predicate = compiler.dest(into, g["type"]), compiler.source(operand, "pred")
    members, result = _members(compiler, rest, g["sync"]), _VOTES[g["vote"]]

    def step(machine: Machine, mask: Mask) -> None:
        regs, active = machine.regs, _active(machine, mask)
        votes = ballot(machine, active & predicate(regs))
        named = members(regs)
        put(regs, result(votes & named, ballot(machine, active) & named), mask)

    return step


@op("activemask", r"\.b32", f"{_ISA}: activemask")
def activemask(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    (into,) = ins.operands
    put = compiler.dest(into, "b32")

    def step(machine: Machine, mask: Mask) -> None:
        put(machine.regs, ballot(machine, _active(machine, mask)), mask)

    return step


def _table(machine: Machine, mask: Mask, members: Array) -> Array:
    """[blocks, W, 32, 32]: whether lane j takes part in what lane i does."""
    active = _active(machine, mask)[..., None, :]
    named: Array = (members[..., None] >> _BITS & np.uint32(1)).astype(bool)
    return active & named


def _equal(machine: Machine, value: Array) -> Array:
    full = np.broadcast_to(value, machine.full)
    same: Array = full[..., :, None] == full[..., None, :]
    return same


def _packed(table: Array) -> Array:
    word: Array = np.packbits(table, axis=-1, bitorder="little").view(np.uint32)[..., 0]
    return word


@op("match", r"\.any\.sync\.(?P<type>b32|b64)", f"{_ISA}: match.sync")
def match_any(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The lanes that hold the same value as this one."""
    into, operand, named = ins.operands
    put, read = compiler.dest(into, "b32"), compiler.source(operand, g["type"])
    members = compiler.source(named, "b32")

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        there = _table(machine, mask, members(regs))
        put(regs, _packed(there & _equal(machine, read(regs))), mask)

    return step


@op("match", r"\.all\.sync\.(?P<type>b32|b64)", f"{_ISA}: match.sync")
def match_all(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The lanes that take part where all of them hold one value, else 0; p says which it is."""
    into, operand, named = ins.operands
    first, second = (into.first, into.second) if isinstance(into, Pair) else (into, None)
    put, read = compiler.dest(first, "b32"), compiler.source(operand, g["type"])
    put_same = compiler.dest(second, "pred") if second is not None else None
    members = compiler.source(named, "b32")

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        there = _table(machine, mask, members(regs))
        same: Array = np.logical_and.reduce(~there | _equal(machine, read(regs)), axis=-1)
        put(regs, np.where(same, _packed(there), np.uint32(0)), mask)
        if put_same is not None:
            put_same(regs, same, mask)

    return step


_REDUCTIONS: dict[str, tuple[np.ufunc, Callable[[str], int]]] = {  # and the neutral element
    "add": (np.add, lambda kind: 0),
    "min": (np.minimum, lambda kind: int(np.iinfo(TYPES[kind]).max)),
    "max": (np.maximum, lambda kind: int(np.iinfo(TYPES[kind]).min)),
    "and": (np.bitwise_and, lambda kind: 0xFFFF_FFFF),
    "or": (np.bitwise_or, lambda kind: 0),
    "xor": (np.bitwise_xor, lambda kind: 0),
}


@op("redux", r"\.sync\.(?P<op>add|min|max)\.(?P<type>u32|s32)", f"{_ISA}: redux.sync")
@op("redux", r"\.sync\.(?P<op>and|or|xor)\.(?P<type>b32)", f"{_ISA}: redux.sync")
def redux(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, operand, named = ins.operands
    kind = g["type"]
    put, read = compiler.dest(into, kind), compiler.source(operand, kind)
    members, (function, neutral) = compiler.source(named, "b32"), _REDUCTIONS[g["op"]]
    rest = TYPES[kind].type(neutral(kind))

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        there = _table(machine, mask, members(regs))
        values = np.broadcast_to(read(regs), machine.full)[..., None, :]
        put(regs, function.reduce(np.where(there, values, rest), axis=-1, dtype=rest.dtype), mask)

    return step


@op("elect", r"\.sync", f"{_ISA}: elect.sync")
def elect(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """d|p: the lowest lane that takes part, and whether it is this one."""
    into, named = ins.operands
    if not isinstance(into, Pair):
        raise ValueError("the destination must be d|p")
    put, put_leader = compiler.dest(into.first, "b32"), compiler.dest(into.second, "pred")
    members = compiler.source(named, "b32")

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        leader = _table(machine, mask, members(regs)).argmax(-1).astype(np.uint32)
        put(regs, leader, mask)
        put_leader(regs, leader == _BITS, mask)

    return step
