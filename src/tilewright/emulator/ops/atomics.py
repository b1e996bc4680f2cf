"""atom and red: read, change and write in one go. PTX ISA, "Parallel Synchronization: atom", "red".

Lanes that meet at one address follow each other in the order of block, warp and lane. (Hardware
promises no order: a result that depends on it, such as a float sum, may differ in last bits.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import TYPES, Array, Mask
from tilewright.emulator.change import Change
from tilewright.emulator.compiler import Compiler, Fetch, Put
from tilewright.emulator.counters import priced
from tilewright.emulator.generic import spaces
from tilewright.emulator.ir import TYPE_BYTES, Instruction, Operand, Sink, Vector
from tilewright.emulator.machine import Machine
from tilewright.emulator.numeric import bf16_bits, bf16_value
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.memory import (
    global_access,
    local_load,
    local_store,
    shared_access,
)
from tilewright.emulator.ops.registry import Step, op
from tilewright.model import banks

_WHERE = (
    r"(?:\.(?:relaxed|acquire|release|acq_rel))?(?:\.(?:cta|cluster|gpu|sys))?"
    r"(?:\.(?P<space>global|shared(?:::(?:cta|cluster))?))?"
)
_HOW = (
    r"\.(?P<change>add|and|or|xor|min|max|inc|dec|exch|cas)(?:\.noftz)?"
    r"(?:\.L2::cache_hint)?(?:\.(?P<vector>v2|v4|v8))?"
    r"\.(?P<type>[bus](?:16|32|64)|f(?:16|32|64)|f16x2|bf16x2|bf16)"
)


def _wrap(old: Array, b: Array, c: Array) -> Array:
    wrapped: Array = np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1))
    return wrapped


def _count_down(old: Array, b: Array, c: Array) -> Array:
    down: Array = np.where((old == 0) | (old > b), b, old - old.dtype.type(1))
    return down


_CHANGES: dict[str, Change] = {
    "add": lambda old, b, c: old + b,
    "and": lambda old, b, c: old & b,
    "or": lambda old, b, c: old | b,
    "xor": lambda old, b, c: old ^ b,
    "min": lambda old, b, c: np.fmin(old, b) if old.dtype.kind == "f" else np.minimum(old, b),
    "max": lambda old, b, c: np.fmax(old, b) if old.dtype.kind == "f" else np.maximum(old, b),
    "inc": _wrap,
    "dec": _count_down,
    "exch": lambda old, b, c: b,
    "cas": lambda old, b, c: np.where(old == b, c, old),
}


def _bf16(change: Change) -> Change:
    """On bit patterns, computed in fp32."""

    def function(old: Array, b: Array, c: Array) -> Array:
        bits = bf16_bits(change(bf16_value(old), bf16_value(b), bf16_value(c)))
        return np.asarray(bits)

    return function


@op("atom", rf"{_WHERE}{_HOW}", "Parallel Synchronization: atom")
def atom(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, where, *values = ins.operands
    if g["vector"]:
        return _vector_step(compiler, g, compiler.address(where), values, into)
    put = None if isinstance(into, Sink) else compiler.dest(into, _register(g["type"]))
    return _step(compiler, ins, g, compiler.address(where), values, put)


@op("red", rf"{_WHERE}{_HOW}", "Parallel Synchronization: red")
def red(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    where, *values = ins.operands
    if g["vector"]:
        return _vector_step(compiler, g, compiler.address(where), values, Sink())
    return _step(compiler, ins, g, compiler.address(where), values, None)


def _register(kind: str) -> str:
    """How a register holds the type."""
    return {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}.get(kind, kind)


def _step(
    compiler: Compiler,
    ins: Instruction,
    g: Groups,
    address: Fetch,
    operands: Sequence[Operand],
    put: Put | None,
) -> Step:
    kind, at = g["type"], compiler.at
    wanted = 2 if g["change"] == "cas" else 1
    if len(operands) != wanted or isinstance(operands[0], Vector):
        raise ValueError(f"{g['change']} takes {wanted} values, and no vector")
    register = _register(kind)
    fetches = [compiler.source(operand, register) for operand in operands]
    width = TYPE_BYTES[kind]
    price = priced(banks.shared_store, width)
    change, element = change_of(kind, g["change"]), _element(kind)
    far = g["space"] in (None, "shared::cluster")

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        values = [np.broadcast_to(fetch(regs), machine.full) for fetch in fetches]
        for space, where, lanes in _of(g["space"], machine, address(regs), mask):
            if space == "shared":
                access = shared_access(machine, at, where, lanes, width, price, far)
                old = machine.shared.change(access, values, element, change)
            elif space == "global":
                access = global_access(machine, at, where, lanes, width)
                machine.exchange(access)
                old = machine.memory.change(access, values, element, change, machine.full)
            else:
                old = _change_local(machine, at, where, lanes, width, values, element, change)
            if put is not None:
                put(regs, old.view(TYPES[register]), lanes)

    return step


def _change_local(
    machine: Machine,
    at: int,
    where: Array,
    mask: Mask,
    width: int,
    values: list[Array],
    element: np.dtype[Any],
    change: Change,
) -> Array:
    """Through a generic address, as an H200 does it; no two lanes meet in local memory."""
    old = local_load(machine, at, where, mask, width)
    given = [np.ascontiguousarray(value).view(element) for value in values]
    new = change(np.ascontiguousarray(old).view(element), given[0], given[-1])
    stored = np.ascontiguousarray(new.astype(element, copy=False)).view(old.dtype)
    local_store(machine, at, where, mask, width, stored)
    return old


def change_of(kind: str, name: str) -> Change:
    """The change of elements of this type; bf16 as bits."""
    change = _CHANGES[name]
    is_bf16 = kind in ("bf16", "bf16x2") and name in ("add", "min", "max")
    return _bf16(change) if is_bf16 else change


def _vector_step(
    compiler: Compiler, g: Groups, address: Fetch, operands: Sequence[Operand], into: Operand
) -> Step:
    """Elements beside each other in global memory, each changed by itself (sm_90)."""
    kind, at, count = g["type"], compiler.at, int(g["vector"][1:])
    size, register = TYPE_BYTES[kind], _register(kind)
    if kind not in _VECTORS or g["change"] not in _VECTORS[kind] or count * size > _WIDEST:
        raise ValueError(f".v{count}.{kind} does not go with {g['change']}")
    if g["space"] not in (None, "global"):
        raise ValueError("vectors are of global memory")
    (source,) = operands
    outs = () if isinstance(into, Sink) else _elements(into, count)
    puts = [compiler.dest(item, register) for item in outs]
    fetches = [compiler.source(item, register) for item in _elements(source, count)]
    change, element = change_of(kind, g["change"]), _element(kind)

    def step(machine: Machine, mask: Mask) -> None:
        regs, base = machine.regs, address(machine.regs)
        values = [np.broadcast_to(fetch(regs), machine.full) for fetch in fetches]
        whole = global_access(machine, at, base, mask, count * size)
        machine.exchange(whole)
        for i, value in enumerate(values):
            access = Access(whole.address + i * size, whole.active, size, at)
            old = machine.memory.change(access, [value], element, change, machine.full)
            if puts:
                puts[i](regs, old.view(TYPES[register]), mask)

    return step


_WIDEST = 16  # bytes of a lane's vector
_HALVES = frozenset(("add", "min", "max"))
_VECTORS = {
    "f32": frozenset(("add",)),
    **dict.fromkeys(("f16", "bf16", "f16x2", "bf16x2"), _HALVES),
}


def _elements(operand: Operand, count: int) -> tuple[Operand, ...]:
    if not isinstance(operand, Vector) or len(operand.items) != count:
        raise ValueError(f"{count} registers in braces are wanted")
    return operand.items


def _of(
    space: str | None, machine: Machine, address: Array, mask: Mask
) -> list[tuple[str, Array, Mask]]:
    if space is None:
        return list(spaces(machine, address, mask))
    return [("shared" if space.startswith("shared") else "global", address, mask)]


def _element(kind: str) -> np.dtype[np.generic]:
    if kind in ("bf16", "bf16x2"):
        return np.dtype(np.uint16)
    if kind == "f16x2":
        return np.dtype(np.float16)
    return TYPES[kind]
