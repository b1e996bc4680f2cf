"""mov and cvta. PTX ISA, "Data Movement and Conversion Instructions"."""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import TYPES, Array, Mask, constant, join, split
from tilewright.emulator.compiler import LOCAL_WINDOW, SHARED_WINDOW, Compiler
from tilewright.emulator.generic import in_window
from tilewright.emulator.ir import Instruction, Special, Vector
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op
from tilewright.emulator.specials import CLOCKS


@op("mov", r"\.(?P<type>pred|[busf](?:16|32|64))", "Data Movement: mov")
def mov(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, value = ins.operands
    kind = g["type"]
    if kind == "pred" and (isinstance(into, Vector) or isinstance(value, Vector)):
        raise ValueError("a predicate has no parts")
    if isinstance(value, Special) and value.name in CLOCKS:
        return _clock(compiler, ins, value, kind)
    if isinstance(into, Vector):
        return _unpack(compiler, into, ins, kind)
    if isinstance(value, Vector):
        return _pack(compiler, value, ins, kind)
    return apply(compiler, ins, lambda a: a, kind, kind)


def _clock(compiler: Compiler, ins: Instruction, clock: Special, kind: str) -> Step:
    """Time as this machine knows it: it goes up by the length of the kernel for every basic block
    that a warp runs, and by one an instruction inside, so that later reads give larger values."""
    if kind[0] == "f" or int(kind[1:]) != int(CLOCKS[clock.name][1:]):
        raise ValueError(f"{clock.name} is read as .{CLOCKS[clock.name]}")
    put, at = compiler.dest(ins.operands[0], kind), compiler.at
    length = len(compiler.kernel.instructions)

    def step(machine: Machine, mask: Mask) -> None:
        machine.differs()  # the clock goes on
        now = machine.trace.issues.total() * length + at
        put(machine.regs, constant(now, TYPES[kind]), mask)

    return step


def _part(kind: str, parts: Vector) -> str:
    """The type of a vector's elements that together fill a register of `kind`."""
    bits, count = int(kind[1:]), len(parts.items)
    if count not in (2, 4) or bits // count < 8 or kind[0] != "b":
        raise ValueError(f"{count} parts do not make a .{kind}")
    return f"b{bits // count}"


def _pack(compiler: Compiler, parts: Vector, ins: Instruction, kind: str) -> Step:
    part = _part(kind, parts)
    fetches = [compiler.source(item, part) for item in parts.items]
    put, width = compiler.dest(ins.operands[0], kind), int(kind[1:]) // 8

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        put(regs, join([fetch(regs) for fetch in fetches], width).view(TYPES[kind]), mask)

    return step


def _unpack(compiler: Compiler, parts: Vector, ins: Instruction, kind: str) -> Step:
    part = _part(kind, parts)
    puts = [compiler.dest(item, part) for item in parts.items]
    fetch = compiler.source(ins.operands[1], kind)

    def step(machine: Machine, mask: Mask) -> None:
        values = split(fetch(machine.regs), TYPES[part], len(puts))
        for put, value in zip(puts, values, strict=True):
            put(machine.regs, value, mask)

    return step


@op(
    "cvta",
    r"(?P<to>\.to)?\.(?P<space>global|const|param|shared(?:::cta)?|local)\.(?P<type>u32|u64)",
    "cvta",
)
def cvta(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Generic addresses are global ones, but for shared and local memory: these have windows."""
    windows = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}
    shift = np.uint64(windows.get(g["space"].split(":")[0], 0))

    def function(a: Array) -> Array:
        return a - shift if g["to"] else a + shift

    if g["type"] == "u32":
        return apply(compiler, ins, lambda a: a, "u32", "u32")
    return apply(compiler, ins, function, "u64", "u64")


@op("isspacep", r"\.(?P<space>global|const|param|shared(?:::(?:cta|cluster))?|local)", "isspacep")
def isspacep(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Of shared and local memory by their windows; global is what lies in neither."""
    space = g["space"].split(":")[0]

    def function(a: Array) -> Array:
        shared = in_window(a.view(np.int64), SHARED_WINDOW)
        local = in_window(a.view(np.int64), LOCAL_WINDOW)
        if space == "global":
            return ~shared & ~local
        inside: Array = {"shared": shared, "local": local}.get(space, np.zeros_like(shared))
        return inside

    return apply(compiler, ins, function, "u64", "pred")
