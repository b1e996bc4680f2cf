"""Bit fields, counts, shifts of pairs and bytes, lookup logic. PTX ISA, "Integer Arithmetic",
"Logic and Shift" and "Data Movement and Conversion Instructions"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import TYPES, Array, Mask
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Immediate, Instruction, Pair
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op

_ARITHMETIC = "Integer Arithmetic Instructions"
_LOGIC = "Logic and Shift Instructions"
_MOVEMENT = "Data Movement and Conversion Instructions"


@op("shf", r"\.(?P<way>[lr])\.(?P<mode>wrap|clamp)\.b32", f"{_LOGIC}: shf")
def shf(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    left, wrap = g["way"] == "l", g["mode"] == "wrap"

    def function(low: Array, high: Array, amount: Array) -> Array:
        n = (amount & 31 if wrap else np.minimum(amount, 32)).astype(np.uint64)
        pair = high.astype(np.uint64) << np.uint64(32) | low
        moved: Array = (pair << n) >> np.uint64(32) if left else pair >> n
        return moved.astype(np.uint32)

    return apply(compiler, ins, function, "b32 b32 u32", "b32")


@op("bfi", r"\.(?P<type>b(?:32|64))", f"{_ARITHMETIC}: bfi")
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


@op("bfe", r"\.(?P<type>[us](?:32|64))", f"{_ARITHMETIC}: bfe")
def bfe(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """A field that reaches past the top bit is filled with the sign there (zeros for .u)."""
    kind, bits = g["type"], int(g["type"][1:])
    unsigned = TYPES["u" + kind[1:]]

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


@op("popc", r"\.(?P<type>b(?:32|64))", f"{_ARITHMETIC}: popc")
def popc(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, _ones, g["type"], "u32")


def _ones(a: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(a)[..., None].view(np.uint8), axis=-1)
    count: Array = bits.sum(-1, dtype=np.uint32)
    return count


@op("clz", r"\.(?P<type>b(?:32|64))", f"{_ARITHMETIC}: clz")
def clz(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, leading_zeros, g["type"], "u32")


def leading_zeros(a: Array) -> Array:
    bits, filled = 8 * a.itemsize, a
    for step in (1, 2, 4, 8, 16, 32):
        if step < bits:
            filled = filled | filled >> filled.dtype.type(step)
    return np.uint32(bits) - _ones(filled)


@op("brev", r"\.(?P<type>b(?:32|64))", f"{_ARITHMETIC}: brev")
def brev(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    def function(a: Array) -> Array:
        raw = np.ascontiguousarray(a)[..., None].view(np.uint8)
        flipped: Array = np.packbits(np.unpackbits(raw, axis=-1)[..., ::-1], axis=-1)
        return flipped.view(a.dtype)[..., 0]

    return apply(compiler, ins, function, g["type"], g["type"])


@op("bfind", r"(?P<shift>\.shiftamt)?\.(?P<type>[us](?:32|64))", f"{_ARITHMETIC}: bfind")
def bfind(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The highest bit that is 1 (of a negative number: 0), or how far it is from the top."""
    kind, bits = g["type"], int(g["type"][1:])
    unsigned = TYPES["u" + kind[1:]]

    def function(a: Array) -> Array:
        raw = np.where(a < 0, ~a, a).view(unsigned) if kind[0] == "s" else a
        above = leading_zeros(raw)
        found = above if g["shift"] else np.uint32(bits - 1) - above
        return np.where(raw == 0, np.uint32(0xFFFF_FFFF), found)

    return apply(compiler, ins, function, kind, "u32")


@op("fns", r"\.b32", f"{_ARITHMETIC}: fns")
def fns(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The position of the n-th 1 from `base` upwards (n > 0) or downwards (n < 0)."""

    def function(word: Array, base: Array, n: Array) -> Array:
        shape = np.broadcast_shapes(word.shape, base.shape, n.shape)
        found = np.full(shape, 0xFFFF_FFFF, np.uint32)
        up, first, wanted = n >= 0, base.astype(np.int64), np.maximum(np.abs(n.astype(np.int64)), 1)
        count = np.zeros(shape, np.int64)
        for step in range(32):  # the ISA's loop, all lanes together
            at = first + np.where(up, step, -step)
            inside = (at >= 0) & (at < 32) & (first < 32) & ((n != 0) | (step == 0))
            bit = (word >> np.clip(at, 0, 31).astype(np.uint32) & np.uint32(1)).astype(bool)
            count += inside & bit
            hit = inside & bit & (count == wanted)
            found = np.where(hit, at, found).astype(np.uint32)
        return found

    return apply(compiler, ins, function, "b32 u32 s32", "b32")


_MODE = r"\.(?P<mode>clamp|wrap)"


@op("bmsk", rf"{_MODE}\.b32", f"{_LOGIC}: bmsk")
def bmsk(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """`b` ones from bit `a` up. With .clamp larger values of either count in full."""
    wrap = g["mode"] == "wrap"

    def function(a: Array, b: Array) -> Array:
        first, count = (x.astype(np.uint64) for x in ((a & 31, b & 31) if wrap else (a, b)))
        one = np.uint64(1)
        ones = (one << np.minimum(count, np.uint64(32))) - one
        return (ones << np.minimum(first, np.uint64(32))).astype(np.uint32)

    return apply(compiler, ins, function, "u32 u32", "b32")


@op("szext", rf"{_MODE}\.(?P<type>[us]32)", f"{_ARITHMETIC}: szext")
def szext(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The low `b` bits of `a`, extended by their sign or by zeros."""
    wrap, signed = g["mode"] == "wrap", g["type"] == "s32"

    def function(a: Array, b: Array) -> Array:
        count = (b & 31 if wrap else np.minimum(b, 32)).astype(np.uint64)
        one = np.uint64(1)
        kept = a & (one << count) - one
        top = np.where(count > 0, kept >> np.maximum(count, one) - one, np.uint64(0))
        extended: Array = (kept - (top << count) if signed else kept).astype(np.uint32)
        return extended

    return apply(compiler, ins, function, "u32 u32", "u32")


# --- logic of three words ---------------------------------------------------------------


def _lookup(operand: object) -> Callable[[Array, Array, Array], Array]:
    """The function whose truth table is the immLut: bit 4·a + 2·b + c."""
    if not isinstance(operand, Immediate) or not 0 <= operand.value <= 255:
        raise ValueError("immLut must be a constant from 0 to 255")
    table = operand.value

    def function(a: Array, b: Array, c: Array) -> Array:
        result = np.zeros((1, 1, 1), np.uint32)
        for row in range(8):
            if table >> row & 1:
                term = a if row & 4 else ~a
                term = term & (b if row & 2 else ~b)
                result = result | term & (c if row & 1 else ~c)
        return result

    return function


@op("lop3", r"\.b32", f"{_LOGIC}: lop3")
def lop3(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, a, b, c, table = ins.operands
    function, put = _lookup(table), compiler.dest(into, "b32")
    fetches = [compiler.source(operand, "b32") for operand in (a, b, c)]

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        put(regs, function(*[fetch(regs) for fetch in fetches]), mask)

    return step


@op("lop3", r"\.(?P<bool>or|and)\.b32", f"{_LOGIC}: lop3")
def lop3_predicate(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """d|p: p is whether d has a bit set, combined with q."""
    into, a, b, c, table, extra = ins.operands
    if not isinstance(into, Pair):
        raise ValueError("the destination must be d|p")
    function, put = _lookup(table), compiler.dest(into.first, "b32")
    put_any, q = compiler.dest(into.second, "pred"), compiler.source(extra, "pred")
    fetches = [compiler.source(operand, "b32") for operand in (a, b, c)]
    combine = np.logical_or if g["bool"] == "or" else np.logical_and

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        result, also = function(*[fetch(regs) for fetch in fetches]), q(regs)
        put(regs, result, mask)
        put_any(regs, combine(result != 0, also), mask)

    return step


# --- bytes ------------------------------------------------------------------------------

# The byte that each mode picks for each place of the result, by the low two bits of c.
_PICKS: dict[str, list[list[int]]] = {
    "f4e": [[n, n + 1, n + 2, n + 3] for n in range(4)],
    "b4e": [[n, (n + 7) % 8, (n + 6) % 8, (n + 5) % 8] for n in range(4)],
    "rc8": [[n] * 4 for n in range(4)],
    "ecl": [[max(n, place) for place in range(4)] for n in range(4)],
    "ecr": [[min(n, place) for place in range(4)] for n in range(4)],
    "rc16": [[2 * (n & 1), 2 * (n & 1) + 1] * 2 for n in range(4)],
}


def _permuted(a: Array, b: Array, selectors: list[Array]) -> Array:
    """A word of the bytes that the selectors pick from {b, a}; bit 3 replicates the sign."""
    pair = b.astype(np.uint64) << np.uint64(32) | a
    result = np.zeros(1, np.uint32)
    for place, pick in enumerate(selectors):
        byte = (pair >> ((pick & 7) * 8).astype(np.uint64)).astype(np.uint32) & 255
        sign = np.where(byte & 128, np.uint32(255), np.uint32(0))
        result = result | np.where(pick & 8, sign, byte) << np.uint32(8 * place)
    return result.astype(np.uint32)


@op("prmt", rf"\.b32(?:\.(?P<mode>{'|'.join(_PICKS)}))?", f"{_MOVEMENT}: prmt")
def prmt(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    picks = np.array(_PICKS[g["mode"]], np.uint32) if g["mode"] else None

    def function(a: Array, b: Array, control: Array) -> Array:
        if picks is None:
            selectors = [control >> np.uint32(4 * place) for place in range(4)]
        else:
            rows = picks[control & 3]
            selectors = [rows[..., place] for place in range(4)]
        return _permuted(a, b, selectors)

    return apply(compiler, ins, function, "b32 b32 u32", "b32")
