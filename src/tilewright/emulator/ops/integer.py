"""Integer and logic instructions. PTX ISA, "Integer Arithmetic" and "Logic and Shift".

The builders of bit fields, of carries and of packed integers have files of their own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import TYPES, Array, Mask
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Instruction
from tilewright.emulator.machine import Machine
from tilewright.emulator.operand_counts import counted
from tilewright.emulator.ops.registry import Step, op

_INT = r"(?P<type>[us](?:16|32|64))"
_BITS = r"(?P<type>b(?:16|32|64))"
_ARITHMETIC = "Integer Arithmetic Instructions"
_LOGIC = "Logic and Shift Instructions"

Groups = dict[str, str]


def apply(
    compiler: Compiler, ins: Instruction, function: Callable[..., Array], kinds: str, result: str
) -> Step:
    """A step that computes operand 0 from the others; `kinds` are their PTX types in order."""
    types = kinds.split()
    if len(ins.operands) != 1 + len(types):
        raise ValueError(counted(ins, (1 + len(types),)))
    put = compiler.dest(ins.operands[0], result)
    pairs = zip(ins.operands[1:], types, strict=True)
    fetches = [compiler.source(operand, kind) for operand, kind in pairs]
    if len(fetches) == 1:
        (one,) = fetches
        return lambda machine, mask: put(machine.regs, function(one(machine.regs)), mask)
    if len(fetches) == 2:
        first, second = fetches

        def step(machine: Machine, mask: Mask) -> None:
            regs = machine.regs
            put(regs, function(first(regs), second(regs)), mask)

        return step

    def general(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        put(regs, function(*[fetch(regs) for fetch in fetches]), mask)

    return general


def _unsigned(kind: str) -> str:
    return "u" + kind[1:]


def _twice(kind: str) -> str:
    return f"{kind[0]}{2 * int(kind[1:])}"


@op("add", rf"\.{_INT}", f"{_ARITHMETIC}: add")
def add(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind = _unsigned(g["type"])  # two's complement: the sign makes no difference
    return apply(compiler, ins, np.add, f"{kind} {kind}", kind)


@op("sub", rf"\.{_INT}", _ARITHMETIC)
def sub(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind = _unsigned(g["type"])
    return apply(compiler, ins, np.subtract, f"{kind} {kind}", kind)


@op("mul", rf"\.lo\.{_INT}", _ARITHMETIC)
def mul_lo(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind = _unsigned(g["type"])
    return apply(compiler, ins, np.multiply, f"{kind} {kind}", kind)


@op("mad", rf"\.lo\.{_INT}", _ARITHMETIC)
def mad_lo(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind = _unsigned(g["type"])
    return apply(compiler, ins, lambda a, b, c: a * b + c, f"{kind} {kind} {kind}", kind)


@op("mul", r"\.wide\.(?P<type>[us](?:16|32))", _ARITHMETIC)
def mul_wide(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind, wide = g["type"], _twice(g["type"])
    dtype = TYPES[wide]
    return apply(
        compiler, ins, lambda a, b: a.astype(dtype) * b.astype(dtype), f"{kind} {kind}", wide
    )


@op("mad", r"\.wide\.(?P<type>[us](?:16|32))", _ARITHMETIC)
def mad_wide(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind, wide = g["type"], _twice(g["type"])
    dtype = TYPES[wide]

    def function(a: Array, b: Array, c: Array) -> Array:
        total: Array = a.astype(dtype) * b.astype(dtype) + c
        return total

    return apply(compiler, ins, function, f"{kind} {kind} {wide}", wide)


@op("mul", rf"\.hi\.{_INT}", f"{_ARITHMETIC}: mul")
def mul_hi(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind = g["type"]
    return apply(compiler, ins, high_half, f"{kind} {kind}", kind)


@op("mad", rf"\.hi\.{_INT}", f"{_ARITHMETIC}: mad")
def mad_hi(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind = g["type"]

    def function(a: Array, b: Array, c: Array) -> Array:
        return high_half(a, b) + c

    return apply(compiler, ins, function, f"{kind} {kind} {kind}", kind)


@op("mad", r"\.hi\.sat\.s32", f"{_ARITHMETIC}: mad")
def mad_hi_sat(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    def function(a: Array, b: Array, c: Array) -> Array:
        return _saturated(high_half(a, b).astype(np.int64) + c)

    return apply(compiler, ins, function, "s32 s32 s32", "s32")


def _saturated(value: Array) -> Array:
    """int64 clamped to what s32 holds."""
    return np.clip(value, -(1 << 31), (1 << 31) - 1).astype(np.int32)


@op("add", r"\.sat\.s32", f"{_ARITHMETIC}: add")
def add_sat(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, lambda a, b: _saturated(a.astype(np.int64) + b), "s32 s32", "s32")


@op("sub", r"\.sat\.s32", f"{_ARITHMETIC}: sub")
def sub_sat(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, lambda a, b: _saturated(a.astype(np.int64) - b), "s32 s32", "s32")


def high_half(a: Array, b: Array) -> Array:
    """The upper half of the product of two integers of one type."""
    bits = 8 * a.itemsize
    if bits == 64:
        return _high_64(a, b)
    wide = np.dtype(f"{a.dtype.kind}{2 * a.itemsize}")
    high: Array = (a.astype(wide) * b.astype(wide) >> bits).astype(a.dtype)
    return high


def _high_64(a: Array, b: Array) -> Array:
    """The upper half of a 64 by 64 bit product, from products of 32-bit digits."""
    half, low = np.uint64(32), np.uint64(0xFFFF_FFFF)
    x, y = a.view(np.uint64), b.view(np.uint64)
    x1, x0, y1, y0 = x >> half, x & low, y >> half, y & low
    middle = x1 * y0 + (x0 * y0 >> half)
    high = x1 * y1 + (middle >> half) + (x0 * y1 + (middle & low) >> half)
    if a.dtype.kind == "i":  # a negative factor was read 2**64 too large
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    signed: Array = high.view(a.dtype)
    return signed


@op("div", rf"\.{_INT}", _ARITHMETIC)
def div(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, quotient, f"{g['type']} {g['type']}", g["type"])


@op("rem", rf"\.{_INT}", _ARITHMETIC)
def rem(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    def function(a: Array, b: Array) -> Array:
        left: Array = a - quotient(a, b) * b
        return left

    return apply(compiler, ins, function, f"{g['type']} {g['type']}", g["type"])


def quotient(a: Array, b: Array) -> Array:
    """a / b rounded towards zero; all bits set where b is 0 (the ISA leaves it unspecified)."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    floor = a // safe
    if a.dtype.kind == "i":  # NumPy rounds towards minus infinity
        floor = floor + ((floor < 0) & (floor * safe != a))
    return np.where(zero, ~a.dtype.type(0), floor)


@op("min", rf"\.{_INT}", _ARITHMETIC)
def minimum(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.minimum, f"{g['type']} {g['type']}", g["type"])


@op("max", rf"\.{_INT}", _ARITHMETIC)
def maximum(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.maximum, f"{g['type']} {g['type']}", g["type"])


@op("neg", r"\.(?P<type>s(?:16|32|64))", _ARITHMETIC)
def neg(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.negative, g["type"], g["type"])


@op("abs", r"\.(?P<type>s(?:16|32|64))", _ARITHMETIC)
def absolute(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.abs, g["type"], g["type"])


@op("sad", rf"\.{_INT}", f"{_ARITHMETIC}: sad")
def sad(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    def function(a: Array, b: Array, c: Array) -> Array:
        total: Array = c + np.where(a < b, b - a, a - b)
        return total

    return apply(compiler, ins, function, " ".join([g["type"]] * 3), g["type"])


_24 = r"\.(?P<half>lo|hi)\.(?P<type>[us]32)"


def _product_24(a: Array, b: Array, half: str) -> Array:
    """32 bits of the 48-bit product of the low 24 bits, as int64: the upper or the lower ones."""
    eight, signed = a.dtype.type(8), a.dtype.kind == "i"
    low = [(x << eight >> eight).astype(np.int64) for x in (a, b)]
    part = low[0] * low[1] >> (16 if half == "hi" else 0)
    product: Array = part.astype(np.int32 if signed else np.uint32).astype(np.int64)
    return product


@op("mul24", _24, f"{_ARITHMETIC}: mul24")
def mul24(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind, half = g["type"], g["half"]

    def function(a: Array, b: Array) -> Array:
        return _product_24(a, b, half).astype(TYPES[kind])

    return apply(compiler, ins, function, f"{kind} {kind}", kind)


@op("mad24", _24, f"{_ARITHMETIC}: mad24")
@op("mad24", r"\.(?P<half>hi)(?P<sat>\.sat)\.(?P<type>s32)", f"{_ARITHMETIC}: mad24")
def mad24(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind, half, sat = g["type"], g["half"], bool(g.get("sat"))

    def function(a: Array, b: Array, c: Array) -> Array:
        total = _product_24(a, b, half) + c
        return _saturated(total) if sat else total.astype(TYPES[kind])

    return apply(compiler, ins, function, f"{kind} {kind} {kind}", kind)


_LOGIC_TYPE = r"\.(?P<type>pred|b(?:16|32|64))"


@op("and", _LOGIC_TYPE, _LOGIC)
def and_(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.bitwise_and, f"{g['type']} {g['type']}", g["type"])


@op("or", _LOGIC_TYPE, _LOGIC)
def or_(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.bitwise_or, f"{g['type']} {g['type']}", g["type"])


@op("xor", _LOGIC_TYPE, _LOGIC)
def xor(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.bitwise_xor, f"{g['type']} {g['type']}", g["type"])


@op("not", _LOGIC_TYPE, _LOGIC)
def not_(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.invert, g["type"], g["type"])


@op("shl", rf"\.{_BITS}", _LOGIC)
def shl(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    bits = int(g["type"][1:])

    def function(a: Array, amount: Array) -> Array:
        shifted: Array = a << np.minimum(amount, bits - 1).astype(a.dtype)
        return np.where(amount >= bits, a.dtype.type(0), shifted)

    return apply(compiler, ins, function, f"{g['type']} u32", g["type"])


@op("shr", r"\.(?P<type>[bus](?:16|32|64))", _LOGIC)
def shr(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    bits = int(g["type"][1:])

    def function(a: Array, amount: Array) -> Array:
        shifted: Array = a >> np.minimum(amount, bits - 1).astype(a.dtype)
        if a.dtype.kind == "i":  # the sign fills from the left
            return shifted
        return np.where(amount >= bits, a.dtype.type(0), shifted)

    return apply(compiler, ins, function, f"{g['type']} u32", g["type"])


@op("cnot", rf"\.{_BITS}", f"{_LOGIC}: cnot")
def cnot(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind = g["type"]
    return apply(compiler, ins, lambda a: (a == 0).astype(a.dtype), kind, kind)
