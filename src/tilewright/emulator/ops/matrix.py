"""ldmatrix, stmatrix, movmatrix and mma. PTX ISA, "Warp Level Matrix Instructions"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.compiler import SHARED_WINDOW, Compiler, Fetch
from tilewright.emulator.counters import Price, priced, relative
from tilewright.emulator.fragments import (
    BITS,
    Fragments,
    Layout,
    fused,
    fused_single,
    mma_a,
    mma_b,
    mma_c,
    quad_a,
    quad_b,
    quad_c,
    settled,
    settled_half,
)
from tilewright.emulator.ir import Instruction, Operand, Vector
from tilewright.emulator.machine import Machine
from tilewright.emulator.numeric import fp16_bits
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op
from tilewright.model import banks

_ISA = "Warp Level Matrix Instructions"
ROW_BYTES = 16  # a row of an 8x8 matrix of 16-bit elements
_SHAPE = (
    r"\.sync\.aligned\.m8n8\.(?P<count>x1|x2|x4)(?P<trans>\.trans)?"
    r"(?P<space>\.shared(?:::cta)?)?\.b16"
)


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


@op("ldmatrix", _SHAPE, f"{_ISA}: ldmatrix")
def ldmatrix(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Lane l gets elements 2·(l % 4) and the next of row l / 4 of each matrix."""
    count, transposed, at = int(g["count"][1]), bool(g["trans"]), compiler.at
    puts = [compiler.dest(item, "b32") for item in _items(ins.operands[0])]
    if len(puts) != count:
        raise ValueError(f".{g['count']} needs {count} registers")
    address, price = _shared(compiler, ins.operands[1], g), priced(banks.ldmatrix, count)

    def step(machine: Machine, mask: Mask) -> None:
        access = row_access(machine, at, address(machine.regs), mask, count, price)
        rows = machine.shared.load(access)  # [blocks, W, 8·count] rows of 16 bytes
        halves = np.ascontiguousarray(rows).view(np.uint16)
        matrices = halves.reshape(*machine.full[:2], count, 8, 8)
        if transposed:
            matrices = np.ascontiguousarray(matrices.swapaxes(-1, -2))
        lanes = matrices.view(np.uint32).reshape(*machine.full[:2], count, 32)
        for i, put in enumerate(puts):
            put(machine.regs, lanes[:, :, i], mask)

    return step


@op("stmatrix", _SHAPE, f"{_ISA}: stmatrix")
def stmatrix(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    count, transposed, at = int(g["count"][1]), bool(g["trans"]), compiler.at
    fetches = [compiler.source(item, "b32") for item in _items(ins.operands[1])]
    if len(fetches) != count:
        raise ValueError(f".{g['count']} needs {count} registers")
    address, price = _shared(compiler, ins.operands[0], g), priced(banks.stmatrix, count)

    def step(machine: Machine, mask: Mask) -> None:
        access = row_access(machine, at, address(machine.regs), mask, count, price)
        lanes = [np.broadcast_to(fetch(machine.regs), machine.full) for fetch in fetches]
        matrices = np.stack(lanes, axis=2).view(np.uint16)
        matrices = matrices.reshape(*machine.full[:2], count, 8, 8)
        if transposed:
            matrices = matrices.swapaxes(-1, -2)
        rows = np.ascontiguousarray(matrices).view(np.complex128)
        machine.shared.store(access, rows.reshape(*machine.full[:2], 8 * count))

    return step


def _shared(compiler: Compiler, operand: Operand, g: Groups) -> Fetch:
    """The address in shared memory; without a space in the opcode it is a generic one."""
    address = compiler.address(operand)
    return address if g["space"] else lambda regs: address(regs) - SHARED_WINDOW


def row_access(
    machine: Machine, at: int, where: Array, mask: Mask, count: int, price: Price
) -> Access:
    """Checks and counts an access of `count` matrices; lane 8·i + r names row r of matrix i."""
    access = machine.shared.access(machine.findings, at, where, mask, ROW_BYTES, 8 * count)
    rows = [relative(access.address, access.active)]
    machine.counters.count(at, price, ROW_BYTES, rows, machine.blocks)
    return access


@op("movmatrix", r"\.sync\.aligned\.m8n8\.trans\.b16", f"{_ISA}: movmatrix")
def movmatrix(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Transposes an 8x8 matrix that lies in the registers as ldmatrix delivers it."""
    into, value = ins.operands
    put, fetch = compiler.dest(into, "b32"), compiler.source(value, "b32")

    def step(machine: Machine, mask: Mask) -> None:
        lanes = np.ascontiguousarray(np.broadcast_to(fetch(machine.regs), machine.full))
        halves = lanes.view(np.uint16).reshape(*machine.full[:2], 8, 8).swapaxes(-1, -2)
        moved = np.ascontiguousarray(halves).view(np.uint32)
        put(machine.regs, moved.reshape(machine.full), mask)

    return step


# --- mma --------------------------------------------------------------------------------

_FLOATS = r"f16|bf16|tf32|e4m3|e5m2"
_INTEGERS = r"s8|u8|s4|u4"
_SHAPES = {  # the bits of a multiplicand's elements that each shape takes
    **{(8, 4): (64,), (8, 16): (8,), (8, 32): (4,)},
    **{(16, 4): (32, 64), (16, 8): (16, 32, 64), (16, 16): (8, 16, 64)},
    **{(16, 32): (4, 8), (16, 64): (4,)},
    **dict.fromkeys([(8, 128), (16, 128), (16, 256)], (1,)),
}


@dataclass(frozen=True, slots=True)
class Product:
    """d = a·b + c of one instruction: the types and the places of its operands.

    Products are exact, and so are integers, which wrap or saturate. How floats are summed:

    - f32 from f16, bf16, tf32 and fp8: products in fp32 in the order of the host's matrix
      product, then c. An H200 aligns the products and c to the largest exponent among them,
      drops what lies beyond 25 fraction bits, sums, and truncates to fp32 (fp8: in two halves
      from 0, and c is added with a rounding), so that it differs in the last bits.
    - f16: the exact sum, rounded once, as an H200 does it; a sum that rounds to zero is +0.
      fp8 rounds after each half of k (k % 4 < 2 first) and after c (of wgmma: `fp8_sums`).
    - f64, and f16 of m8n8k4: fused multiply-adds along k from c on, as an H200 does it.

    A sum beyond fp32 is infinity with the sign of the whole, and NaN is 0x7FFFFFFF.
    """

    kinds: tuple[str, str, str, str]  # of d, a, b, c
    layouts: tuple[Layout, Layout, Layout, Layout]
    saturate: bool = False
    exclusive: bool = False  # of bits: counts where they differ, not where both are set

    def step(self, compiler: Compiler, operands: Sequence[Operand]) -> Step:
        parts = [_items(operand) for operand in operands]
        wanted = [form.registers for form in self.layouts]
        if [len(part) for part in parts] != wanted:
            raise ValueError(f"d, a, b and c take {wanted} registers")
        types = ["f32" if kind == "f32" else _REGISTER[BITS[kind]] for kind in self.kinds]
        puts = [compiler.dest(item, types[0]) for item in parts[0]]
        a, b, c = (_sources(compiler, *pair) for pair in zip(parts[1:], types[1:], strict=True))
        compute = self._compute

        def step(machine: Machine, mask: Mask) -> None:
            regs, fragments = machine.regs, machine.fragments
            left = fragments.operand(_fetched(a, regs), self.layouts[1], self.kinds[1])
            right = fragments.operand(_fetched(b, regs), self.layouts[2], self.kinds[2])
            values = compute(fragments, left, right, _fetched(c, regs))
            for put, value in zip(puts, values, strict=True):
                put(regs, value, mask)

        return step

    def _compute(self, fragments: Fragments, a: Array, b: Array, c: list[Array]) -> list[Array]:
        """The registers of d."""
        d = self.kinds[0]
        if d == "f32" and self.layouts[0] is self.layouts[3] is mma_c(16, 32):
            return fragments.multiply_add(a, b, c)
        total = self.total(a, b, fragments.matrix(c, self.layouts[3], self.kinds[3]))
        words = {"s32": _int_word, "f16": _half_word}.get(d, _word)
        return fragments.registers(total, self.layouts[0], words)

    def total(self, a: Array, b: Array, c: Array) -> Array:
        """d of matrices [n, rows, k], [n, k, columns] and [n, rows, columns]; s32 as int64."""
        d = self.kinds[0]
        if d == "s32":
            return self._integers(a, b, c)
        if d == "f16":
            return self._halves(a, b, c)
        if d == "f64":
            return _chain(a, b, c, fused)
        return settled(np.matmul(a, b) + c, a, b, c)

    def _integers(self, a: Array, b: Array, c: Array) -> Array:
        total = np.matmul(a, b)  # below 2**24: fp32 is exact
        if self.exclusive:
            total = a.sum(-1)[..., None] + b.sum(-2)[:, None, :] - 2 * total
        total = total.astype(np.int64) + c
        wide: Array = total.clip(-(2**31), 2**31 - 1) if self.saturate else total
        return wide

    def _halves(self, a: Array, b: Array, c: Array) -> Array:
        if self.layouts[0].many > 1:
            return _chain(a, b, c, fused_single).astype(np.float16)
        a, b = a.astype(np.float64), b.astype(np.float64)
        if self.kinds[1] == "f16":
            return settled_half(np.matmul(a, b) + c)
        first = np.arange(a.shape[-1]) % 4 < 2
        total = np.matmul(a[..., first], b[:, first]).astype(np.float16)
        total = (np.matmul(a[..., ~first], b[:, ~first]) + total).astype(np.float16)
        return settled_half(total + c)


def _chain(a: Array, b: Array, c: Array, step: Callable[[Array, Array, Array], Array]) -> Array:
    for k in range(a.shape[-1]):
        c = step(a[:, :, k, None], b[:, None, k, :], c)
    return c


_REGISTER = {64: "f64", **dict.fromkeys((32, 16, 8, 4, 1), "b32")}


def _int_word(elements: Array) -> Array:
    return elements[..., 0].astype(np.uint32)


def _half_word(elements: Array) -> Array:
    return np.ascontiguousarray(fp16_bits(elements)).view(np.uint32)[..., 0]


def _word(elements: Array) -> Array:
    return elements[..., 0]


@op(
    "mma",
    rf"\.sync\.aligned\.m(?P<m>8|16)n8k(?P<k>\d+)\.row\.col(?:"
    rf"\.(?P<d>f16|f32)\.(?P<a>{_FLOATS})\.(?P<b>{_FLOATS})\.(?P<c>f16|f32)"
    rf"|(?P<sat>\.satfinite)?\.s32\.(?P<ia>{_INTEGERS})\.(?P<ib>{_INTEGERS})\.s32"
    r"|\.s32\.(?P<bits>b1)\.b1\.s32\.(?P<count>xor|and)\.popc"
    r"|\.(?P<f64>f64)\.f64\.f64\.f64)",
    f"{_ISA}: mma",
)
def mma(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    m, k = int(g["m"]), int(g["k"])
    if (m, k) == (8, 4) and g["a"]:
        return _quads(compiler, ins, {**g, "rows": "row", "columns": "col"})
    if g["f64"]:
        kinds = ("f64", "f64", "f64", "f64")
    elif g["ia"]:
        kinds = ("s32", g["ia"], g["ib"], "s32")
    elif g["bits"]:
        kinds = ("s32", "b1", "b1", "s32")
    else:
        kinds = (g["d"], g["a"], g["b"], g["c"])
    _check_kinds(m, k, kinds)
    bits = BITS[kinds[1]]
    forms = mma_c(m, BITS[kinds[0]]), mma_a(m, k, bits), mma_b(k, bits), mma_c(m, BITS[kinds[3]])
    return Product(kinds, forms, bool(g["sat"]), g["count"] == "xor").step(compiler, ins.operands)


def _check_kinds(m: int, k: int, kinds: tuple[str, str, str, str]) -> None:
    """Raises ValueError for types that the ISA does not have in this shape or together."""
    d, a, b, c = kinds
    if BITS[a] != BITS[b] or (a != b and BITS[a] > 8):
        raise ValueError(f"a and b are .{a} and .{b}")
    if BITS[a] not in _SHAPES.get((m, k), ()):
        raise ValueError(f"m{m}n8k{k} does not take .{a}")
    wide = a in ("bf16", "tf32")
    if (wide and (d, c) != ("f32", "f32")) or (BITS[a] == 8 and a[0] == "e" and d != c):
        raise ValueError(f".{a} does not go with .{d} and .{c}")


@op(
    "mma",
    r"\.sync\.aligned\.m8n8k4\.(?P<rows>row|col)\.(?P<columns>row|col)"
    r"\.(?P<d>f16|f32)\.f16\.f16\.(?P<c>f16|f32)",
    f"{_ISA}: mma",
)
def mma_quads(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return _quads(compiler, ins, g)


def _quads(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Four products at once, each of 8 lanes."""
    forms = quad_c(BITS[g["d"]]), quad_a(g["rows"]), quad_b(g["columns"]), quad_c(BITS[g["c"]])
    return Product((g["d"], "f16", "f16", g["c"]), forms).step(compiler, ins.operands)


def _sources(compiler: Compiler, items: tuple[Operand, ...], kind: str) -> list[Fetch]:
    return [compiler.source(item, kind) for item in items]


def _fetched(fetches: list[Fetch], regs: list[Array]) -> list[Array]:
    return [fetch(regs) for fetch in fetches]
