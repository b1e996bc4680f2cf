"""Integer and logic instructions. PTX ISA, "Integer Arithmetic" and "Logic and Shift"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import TYPES, Array, Mask
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Instruction
from tilewright.emulator.machine import Machine
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
    put = compiler.dest(ins.operands[0], result)
    pairs = zip(ins.operands[1:], kinds.split(), strict=True)
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


@op("add", rf"\.{_INT}", _ARITHMETIC)
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


@op("mul", rf"\.hi\.{_INT}", _ARITHMETIC)
def mul_hi(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind, bits = g["type"], int(g["type"][1:])
    if bits == 64:
        return apply(compiler, ins, _high_64, f"{kind} {kind}", kind)
    narrow, wide = TYPES[kind], TYPES[_twice(kind)]

    def function(a: Array, b: Array) -> Array:
        high: Array = ((a.astype(wide) * b.astype(wide)) >> bits).astype(narrow)
        return high

    return apply(compiler, ins, function, f"{kind} {kind}", kind)


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


@op("shf", r"\.(?P<way>[lr])\.(?P<mode>wrap|clamp)\.b32", _LOGIC)
def shf(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    left, wrap = g["way"] == "l", g["mode"] == "wrap"

    def function(low: Array, high: Array, amount: Array) -> Array:
        n = (amount & 31 if wrap else np.minimum(amount, 32)).astype(np.uint64)
        pair = high.astype(np.uint64) << np.uint64(32) | low
        moved: Array = (pair << n) >> np.uint64(32) if left else pair >> n
        return moved.astype(np.uint32)

    return apply(compiler, ins, function, "b32 b32 u32", "b32")


@op("bfi", r"\.(?P<type>b(?:32|64))", _ARITHMETIC)
def bfi(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    dtype, bits = TYPES[g["type"]], int(g["type"][1:])

    def function(field: Array, into: Array, position: Array, length: Array) -> Array:
        at = position & 255
        count = np.minimum(length & 255, bits)
        mask = _low_ones(count, dtype, bits)
        shift = np.minimum(at, bits - 1).astype(dtype)
        placed = np.where(at < bits, mask << shift, dtype.type(0))
        merged: Array = (into & ~placed) | ((field << shift) & placed)
        return merged

    kind = g["type"]
    return apply(compiler, ins, function, f"{kind} {kind} u32 u32", kind)


@op("bfe", r"\.(?P<type>[us](?:32|64))", _ARITHMETIC)
def bfe(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """A field that reaches past the top bit is filled with the sign there (zeros for .u)."""
    kind, bits = g["type"], int(g["type"][1:])
    unsigned = TYPES[_unsigned(kind)]

    def function(a: Array, position: Array, length: Array) -> Array:
        at, count = (position & 255).astype(np.int64), (length & 255).astype(np.int64)
        inside = np.clip(bits - at, 0, count)  # bits of the field that the operand has
        raw = a.view(unsigned) >> np.minimum(at, bits - 1).astype(unsigned)
        mask = _low_ones(inside, unsigned, bits)
        if kind[0] == "u":
            field: Array = raw & mask
            return field
        last = np.minimum(at + np.maximum(count, 1) - 1, bits - 1).astype(unsigned)
        negative = ((a.view(unsigned) >> last) & unsigned.type(1)).astype(bool) & (count > 0)
        signed: Array = np.where(negative, raw & mask | ~mask, raw & mask).view(TYPES[kind])
        return signed

    return apply(compiler, ins, function, f"{kind} u32 u32", kind)


def _low_ones(count: Array, dtype: np.dtype[np.generic], bits: int) -> Array:
    """A mask of `count` ones at the bottom; a shift by the full width must not happen."""
    one = np.ones((), dtype)
    short = (one << np.minimum(count, bits - 1).astype(dtype)) - one
    return np.where(count >= bits, ~np.zeros((), dtype), short)


@op("popc", r"\.(?P<type>b(?:32|64))", _ARITHMETIC)
def popc(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, _ones, g["type"], "u32")


def _ones(a: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(a)[..., None].view(np.uint8), axis=-1)
    count: Array = bits.sum(-1, dtype=np.uint32)
    return count


@op("clz", r"\.(?P<type>b(?:32|64))", _ARITHMETIC)
def clz(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    bits = int(g["type"][1:])

    def function(a: Array) -> Array:
        filled = a
        for step in (1, 2, 4, 8, 16, 32):
            if step < bits:
                filled = filled | filled >> filled.dtype.type(step)
        return np.uint32(bits) - _ones(filled)

    return apply(compiler, ins, function, g["type"], "u32")


@op("brev", r"\.(?P<type>b(?:32|64))", _ARITHMETIC)
def brev(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    def function(a: Array) -> Array:
        raw = np.ascontiguousarray(a)[..., None].view(np.uint8)
        flipped: Array = np.packbits(np.unpackbits(raw, axis=-1)[..., ::-1], axis=-1)
        return flipped.view(a.dtype)[..., 0]

    return apply(compiler, ins, function, g["type"], g["type"])


@op("prmt", r"\.b32", "Data Movement and Conversion Instructions: prmt")
def prmt(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    def function(a: Array, b: Array, control: Array) -> Array:
        pair = b.astype(np.uint64) << np.uint64(32) | a
        result = np.zeros(1, np.uint32)
        for lane in range(4):
            pick = control >> np.uint32(4 * lane)
            byte = (pair >> ((pick & 7) * 8).astype(np.uint64)).astype(np.uint32) & 255
            sign = np.where(byte & 128, np.uint32(255), np.uint32(0))
            result = result | np.where(pick & 8, sign, byte) << np.uint32(8 * lane)
        return result.astype(np.uint32)

    return apply(compiler, ins, function, "b32 b32 u32", "b32")
