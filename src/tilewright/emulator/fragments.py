"""Matrices in the registers of a warp: where the elements of mma and wmma operands lie.

A `Layout` is the PTX ISA's fragment figure of one operand as data. `Fragments` turns registers
into matrices and back. The 32-bit accumulator of m16n8 is kept as one matrix [blocks·warps, 16, 8]
whose four registers are views: register (half, low) of lane l is element 64·half + 2·l + low of
the row-major matrix. The next mma that gets the same four views takes the matrix itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tilewright.emulator.arrays import LANES, Array
from tilewright.emulator.numeric import bf16_value

_KEEP = 256  # accumulators; a kernel has up to 64 alive, each 512 bytes a warp
_KEEP_OPERANDS = 64

BITS = {
    "f64": 64,
    **dict.fromkeys(("f32", "tf32", "s32"), 32),
    **dict.fromkeys(("f16", "bf16"), 16),
    **dict.fromkeys(("s8", "u8", "e4m3", "e5m2"), 8),
    **dict.fromkeys(("s4", "u4"), 4),
    "b1": 1,
}


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """Where the registers of an operand keep its matrix (or `many` matrices).

    `cell[register, lane, i]` is the flat row-major index of element i (low bits first) of a
    register; `place`, its inverse, the flat index into [register, lane, i] of each matrix
    element, the first one where elements are held more than once.
    """

    many: int
    rows: int
    columns: int
    cell: Array
    place: Array

    @property
    def registers(self) -> int:
        return int(self.cell.shape[0])


def layout(rows: Array, columns: Array, extents: tuple[int, int, int]) -> Layout:
    """From the row and the column of every element, [registers, lanes, elements of a register].

    With several matrices `extents` is (matrices, rows, columns), and a row counts through them.
    """
    many, height, width = extents
    cell = np.ascontiguousarray(np.broadcast_arrays(rows * width + columns)[0])
    place = np.full(many * height * width, -1, np.intp)
    place[cell.reshape(-1)[::-1]] = np.arange(cell.size)[::-1]
    if (place < 0).any():
        raise ValueError("the layout leaves elements out")
    return Layout(many, height, width, cell, place)


def _axes(registers: int, per: int) -> tuple[Array, Array, Array]:
    """Register, lane and element within a register, as broadcastable axes."""
    return (
        np.arange(registers).reshape(-1, 1, 1),
        np.arange(LANES).reshape(1, -1, 1),
        np.arange(per).reshape(1, 1, -1),
    )


@cache
def mma_a(m: int, k: int, bits: int) -> Layout:
    """A of m8 and m16: group g = lane / 4 holds row g, and odd registers row g + 8."""
    per, halves = max(1, 32 // bits), m // 8
    register, lane, i = _axes(m * k // (LANES * per), per)
    rows = lane // 4 + 8 * (register % halves)
    columns = per * (lane % 4) + i + 4 * per * (register // halves)
    return layout(rows + 0 * i, columns, (1, m, k))


@cache
def mma_b(k: int, bits: int) -> Layout:
    """B of n8: group g = lane / 4 holds column g, its lanes and registers follow k."""
    per = max(1, 32 // bits)
    register, lane, i = _axes(k * 8 // (LANES * per), per)
    rows = per * (lane % 4) + i + 4 * per * register
    return layout(rows, lane // 4 + 0 * rows, (1, k, 8))


@cache
def mma_c(m: int, bits: int) -> Layout:
    """C and D of n8: lane l holds columns 2·(l % 4) and the next one of rows l / 4 and 8 below."""
    per = max(1, 32 // bits)
    register, lane, i = _axes(m * 8 // (LANES * per), per)
    element = register * per + i
    rows = lane // 4 + 8 * (element // 2)
    return layout(rows, 2 * (lane % 4) + element % 2, (1, m, 8))


@cache
def quad_a(order: str) -> Layout:
    """A of m8n8k4.f16: four matrices, one for lanes 4q..4q+3 (rows 0-3) and 16 above (4-7)."""
    return _quads(order == "row", transposed=False)


@cache
def quad_b(order: str) -> Layout:
    return _quads(order == "col", transposed=True)


def _quads(along_k: bool, transposed: bool) -> Layout:
    """Registers hold 4 elements of a lane, along k (0-3) or along the other extent (0-7)."""
    register, lane, i = _axes(2, 2)
    element, mine = 2 * register + i + 0 * lane, lane % 4 + 0 * register + 0 * i
    high, quad = 4 * (lane // 16), lane // 4 % 4
    outer, k = (mine + high, element) if along_k else (element + high, mine)
    if transposed:
        return layout(4 * quad + k, outer, (4, 4, 8))
    return layout(8 * quad + outer, k, (4, 8, 4))


@cache
def quad_c(bits: int) -> Layout:
    per = 32 // bits
    register, lane, i = _axes(8 // per, per)
    element, high, quad = per * register + i + 0 * lane, 4 * (lane // 16), lane // 4 % 4
    if bits == 16:
        return layout(8 * quad + high + lane % 4 + 0 * element, element, (4, 8, 8))
    rows = 8 * quad + high + (lane & 1) + (element & 2)
    return layout(rows, (element & 4) + (lane & 2) + (element & 1), (4, 8, 8))


class Fragments:
    """Operands unpacked so far, found again by the identity of their register values."""

    def __init__(self, full: tuple[int, int, int]) -> None:
        self.full = full
        self.count = full[0] * full[1]
        self._operands: dict[tuple[object, ...], tuple[Sequence[Array], Array]] = {}
        self._accumulators: dict[int, tuple[Sequence[Array], Array]] = {}

    def operand(self, regs: Sequence[Array], form: Layout, kind: str) -> Array:
        """The matrices [n, rows, columns] in registers, as numbers that hold `kind` exactly."""
        key = (kind, form, *map(id, regs))  # the entry keeps the arrays alive: ids stay theirs
        known = self._operands.get(key)
        if known is None:
            if len(self._operands) >= _KEEP_OPERANDS:
                self._operands.clear()
            known = self._operands[key] = (regs, self.matrix(regs, form, kind))
        return known[1]

    def matrix(self, regs: Sequence[Array], form: Layout, kind: str) -> Array:
        """Like `operand`, for registers that no later instruction will read again."""
        full = [np.broadcast_to(reg, self.full) for reg in regs]
        words = np.stack(full, axis=2).reshape(self.count, -1)
        elements = values(words, kind).take(form.place, axis=1)
        return elements.reshape(self.count * form.many, form.rows, form.columns)

    def registers(
        self, matrix: Array, form: Layout, words: Callable[[Array], Array]
    ) -> list[Array]:
        """The registers of a matrix; `words` makes 32 or 64 bits of the elements of each."""
        elements = matrix.reshape(self.count, -1).take(form.cell.reshape(-1), axis=1)
        lanes = words(elements.reshape(*self.full[:2], *form.cell.shape))
        return [lanes[:, :, i] for i in range(form.registers)]

    def multiply_add(self, a: Array, b: Array, c: Sequence[Array]) -> list[Array]:
        """The four registers of a·b + c for m16n8 in fp32."""
        product, addend = np.matmul(a, b), self._accumulator(c)
        product += addend
        product = settled(product, a, b, addend)
        lanes = product.reshape(*self.full[:2], 2, self.full[2], 2)
        regs = [lanes[:, :, half, :, low] for half in (0, 1) for low in (0, 1)]
        if len(self._accumulators) >= _KEEP:  # the oldest ones went elsewhere than to an mma
            del self._accumulators[next(iter(self._accumulators))]
        self._accumulators[id(regs[0])] = (regs, product)
        return regs

    def _accumulator(self, regs: Sequence[Array]) -> Array:
        known = self._accumulators.pop(id(regs[0]), None)
        if known is not None and all(x is y for x, y in zip(known[0], regs, strict=True)):
            return known[1]
        matrix = np.empty((*self.full[:2], 2, self.full[2], 2), np.float32)
        for i, reg in enumerate(regs):
            matrix[:, :, i // 2, :, i % 2] = reg
        return matrix.reshape(self.count, 16, 8)


def values(words: Array, kind: str) -> Array:
    """The elements of registers (low bits first) as numbers; tf32 ignores its 13 low bits.

    Everything up to 16 bits, integers too, becomes fp32, which holds it exactly.
    """
    if kind in ("f64", "f32", "s32"):
        return words.view({"f64": "f8", "f32": "f4", "s32": "i4"}[kind])
    if kind == "tf32":
        return (words & np.uint32(0xFFFF_E000)).view(np.float32)
    if kind == "bf16":
        return bf16_value(words.view(np.uint16))
    if kind == "f16":
        return words.view(np.float16).astype(np.float32)
    if kind in ("s8", "u8"):
        return words.view(np.int8 if kind == "s8" else np.uint8).astype(np.float32)
    if kind in ("s4", "u4"):
        pairs = words.view(np.uint8)
        nibbles = np.stack([pairs & np.uint8(15), pairs >> np.uint8(4)], axis=-1)
        nibbles = nibbles.reshape(*pairs.shape[:-1], -1)
        if kind == "s4":
            return (nibbles ^ np.uint8(8)).astype(np.float32) - np.float32(8)
        return nibbles.astype(np.float32)
    if kind == "b1":
        return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").astype(np.float32)
    return _FP8[kind].take(words.view(np.uint8))


def settled(total: Array, a: Array, b: Array, c: Array) -> Array:
    """total = a·b + c in fp32, with what overflowed or is NaN as the hardware has it.

    An infinity takes the sign of the whole sum: the order in which it overflowed doesn't show.
    """
    if np.isfinite(total.sum()):
        return total
    whole = (np.matmul(a.astype(np.float64), b.astype(np.float64)) + c).astype(np.float32)
    total = np.where(np.isfinite(total), total, whole)
    total[np.isnan(total)] = NAN
    return total


NAN = np.uint32(0x7FFF_FFFF).view(np.float32)


def settled_half(total: Array) -> Array:
    """Sums rounded to fp16 as the hardware has them: zero is +0, and NaN 0x7FFF."""
    half: Array = total.astype(np.float16)
    half[half == 0] = 0
    half[np.isnan(half)] = np.uint16(0x7FFF).view(np.float16)
    return half


def fused(a: Array, b: Array, c: Array) -> Array:
    """a·b + c in fp64, rounded once (Boldo and Melquiond 2008: the errors' sum rounded to odd).

    Products outside 1e-270 to 1e290 are rounded before the addition.
    """
    product = a * b
    (a1, a0), (b1, b0) = _split(a), _split(b)
    low = a0 * b0 - (((product - a1 * b1) - a0 * b1) - a1 * b0)
    middle, error = _two_sum(c, low)
    high, rest = _two_sum(product, middle)
    tail, lost = _two_sum(error, rest)
    odd = _to_odd(tail, lost)
    size = np.abs(product)
    safe = (size > 1e-270) & (size < 1e290) & (np.abs(c) < 1e290)
    # What overflows or vanishes does so with its sign.
    plain = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, product + c)
    plain = np.where((product == 0) & (a != 0) & (b != 0) & (c == 0), product, plain)
    return np.where(safe, high + odd, plain)


def fused_single(a: Array, b: Array, c: Array) -> Array:
    """a·b + c in fp32, rounded once: the product is exact in fp64, and the sum rounded to odd."""
    return _to_odd(*_two_sum(a.astype(np.float64) * b, c.astype(np.float64))).astype(np.float32)


def _to_odd(value: Array, lost: Array) -> Array:
    """value + lost, of which lost is below half a unit of value, cut so that the last bit tells
    that something is missing: rounding it to fewer bits is then right."""
    bits = value.view(np.int64)
    away = np.where((lost > 0) == (value > 0), 1, -1)
    inexact = (lost != 0) & np.isfinite(lost) & (bits & 1 == 0)
    return np.where(inexact, bits + away, bits).view(np.float64)


def _split(value: Array) -> tuple[Array, Array]:
    """Two halves of 26 bits each (Dekker)."""
    scaled = value * (2.0**27 + 1)
    high = scaled - (scaled - value)
    return high, value - high


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _fp8_values(exponent_bits: int) -> Array:
    """All 256 values of e4m3 (no infinity, one NaN a sign) or e5m2 (the upper half of fp16)."""
    bits = np.arange(256)
    if exponent_bits == 5:
        return (bits.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float32)
    exponent, mantissa = bits >> 3 & 15, bits & 7
    size = np.where(
        exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0)
    )
    size[bits & 0x7F == 0x7F] = np.nan
    return np.copysign(size, np.where(bits < 128, 1.0, -1.0)).astype(np.float32)


_FP8 = {"e4m3": _fp8_values(4), "e5m2": _fp8_values(5)}
