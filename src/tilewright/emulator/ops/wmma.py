"""wmma.load, wmma.mma and wmma.store. PTX ISA, "Matrix multiply-accumulate using wmma".

The ISA leaves open which lane holds what. Here it is as on an H200, where a fragment is made of
those of mma: the tests hold it to a recording.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np

from tilewright.emulator.arrays import BY_WIDTH, TYPES, Mask
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.fragments import BITS, Layout, layout, mma_a, mma_b, mma_c
from tilewright.emulator.ir import Instruction, Operand, Vector
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.matrix import Product
from tilewright.emulator.ops.registry import Step, op
from tilewright.emulator.ops.wmma_memory import Part, Reach, parts

_ISA = "Warp Level Matrix Instructions: wmma"
_SHAPE = r"\.(?P<shape>m16n16k16|m32n8k16|m8n32k16|m16n16k8|m8n8k4)"
_SPACE = r"(?:\.(?P<space>global|shared)(?:::cta)?)?"

_KINDS: dict[
    tuple[str, str], tuple[str, ...]
] = {  # types of a and b → those of c and d, where the shape takes them
    **{
        (shape, kind): into
        for shape in ("m16n16k16", "m32n8k16", "m8n32k16")
        for kind, into in {
            "f16": ("f16", "f32"),
            "bf16": ("f32",),
            "s8": ("s32",),
            "u8": ("s32",),
        }.items()
    },
    ("m16n16k8", "tf32"): ("f32",),
    ("m8n8k4", "f64"): ("f64",),
}


# --- where elements lie -----------------------------------------------------------------


def _extents(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def _repeat(form: Layout, down: int, across: int) -> Layout:
    """Copies of a layout below and beside each other; registers go through the rows first."""
    rows, columns = form.cell // form.columns, form.cell % form.columns
    steps = [(i * form.rows, j * form.columns) for i in range(down) for j in range(across)]
    return layout(
        np.concatenate([rows + row for row, _ in steps]),
        np.concatenate([columns + column for _, column in steps]),
        (1, down * form.rows, across * form.columns),
    )


def _transposed(form: Layout) -> Layout:
    rows, columns = form.cell // form.columns, form.cell % form.columns
    return layout(columns, rows, (1, form.columns, form.rows))


def _twice(form: Layout) -> Layout:
    """All registers a second time."""
    rows, columns = form.cell // form.columns, form.cell % form.columns
    extents = (1, form.rows, form.columns)
    return layout(np.concatenate([rows, rows]), np.concatenate([columns, columns]), extents)


@cache
def fragment(which: str, shape: str, kind: str) -> Layout:
    """The layout of fragment a, b or c of a shape (d is c's)."""
    m, n, k = _extents(shape)
    bits = BITS[kind]
    if m == 8 and n == 32:  # the transposed product, which is m32n8
        other = {"a": "b", "b": "a", "c": "c"}[which]
        return _transposed(fragment(other, f"m32n8k{k}", kind))
    if which == "c":
        return _repeat(mma_c(min(m, 16), bits), -(-m // 16), n // 8)
    if which == "a":
        form = _repeat(mma_a(min(m, 16), k, bits), -(-m // 16), 1)
    else:
        form = _repeat(mma_b(k, bits), 1, n // 8)
    registers = 8 if kind == "f16" else form.registers
    while form.registers < registers:
        form = _twice(form)
    return form


# --- load and store ---------------------------------------------------------------------


def _reach(
    compiler: Compiler, where: Sequence[Operand], form: Layout, g: Groups, which: str
) -> Reach:
    if len(where) not in (1, 2):
        raise ValueError("an address and perhaps a stride are needed")
    order, size = g["order"], BITS[g["type"]] // 8
    address = compiler.address(where[0])
    stride = compiler.source(where[1], "u32") if len(where) == 2 else None
    tight = form.columns if order == "row" else form.rows
    steps = _accesses(form, which, g)
    return Reach(compiler.at, g["space"], address, stride, tight, size, form, steps)


def _accesses(form: Layout, which: str, g: Groups) -> tuple[Part, ...]:
    by_rows = g["space"] == "shared" and which in "ab"
    return parts(form, g["order"], BITS[g["type"]], by_rows)


def _items(operand: Operand, form: Layout) -> tuple[Operand, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != form.registers:
        raise ValueError(f"the fragment has {form.registers} registers, not {len(items)}")
    return items


def _fragment(which: str, g: Groups) -> Layout:
    """Raises ValueError for a type that the shape does not take."""
    shape, kind = g["shape"], g["type"]
    known = kind in {k for s, k in _KINDS if s == shape}
    if which == "c":
        known = any(kind in into for (s, _), into in _KINDS.items() if s == shape)
    if not known:
        raise ValueError(f"{shape} has no .{kind} fragment {which}")
    return fragment(which, shape, kind)


_LOAD = (
    rf"\.load\.(?P<which>[abc])\.sync\.aligned\.(?P<order>row|col){_SHAPE}{_SPACE}"
    r"\.(?P<type>f16|bf16|tf32|s8|u8|f32|s32|f64)"
)
_STORE = (
    rf"\.store\.d\.sync\.aligned\.(?P<order>row|col){_SHAPE}{_SPACE}"
    r"\.(?P<type>f16|f32|s32|f64)"
)
_MMA = (
    rf"\.mma\.sync\.aligned\.(?:row|col)\.(?:row|col){_SHAPE}(?:\.rn)?(?:"
    r"\.(?P<d>f16|f32)\.(?P<c>f16|f32)"
    r"|\.(?P<wide>f32|s32|f64)\.(?P<type>bf16|tf32|s8|u8|f64)\.(?P=type)\.(?P=wide))"
    r"(?:\.rn)?(?P<sat>\.satfinite)?"
)


@op("wmma", _LOAD, f"{_ISA}.load")
def wmma_load(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    which, kind = g["which"], g["type"]
    form = _fragment(which, g)
    items = _items(ins.operands[0], form)
    reach = _reach(compiler, ins.operands[1:], form, g, which)
    puts = [compiler.dest(item, _register(kind)) for item in items]
    dtype = TYPES[_register(kind)]

    def step(machine: Machine, mask: Mask) -> None:
        words = reach.load(machine, mask).view(dtype)[..., 0]
        for i, put in enumerate(puts):
            put(machine.regs, np.ascontiguousarray(words[:, :, i]), mask)

    return step


@op("wmma", _STORE, f"{_ISA}.store")
def wmma_store(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    form, kind = _fragment("c", g), g["type"]
    where = [operand for operand in ins.operands if not isinstance(operand, Vector)]
    (values,) = (operand for operand in ins.operands if isinstance(operand, Vector))
    reach = _reach(compiler, where, form, g, "d")
    fetches = [compiler.source(item, _register(kind)) for item in _items(values, form)]
    element = BY_WIDTH[BITS[kind] // 8]

    def step(machine: Machine, mask: Mask) -> None:
        words = [np.broadcast_to(fetch(machine.regs), machine.full) for fetch in fetches]
        reach.store(machine, mask, np.stack(words, axis=2)[..., None].view(element))

    return step


def _register(kind: str) -> str:
    return {"f32": "f32", "f64": "f64"}.get(kind, "b32")


# --- mma --------------------------------------------------------------------------------


@op("wmma", _MMA, f"{_ISA}.mma")
def wmma_mma(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """d = a·b + c; the multiplicands' memory orders no longer matter here."""
    shape, kind = g["shape"], g["type"] or "f16"
    d, c = (g["d"], g["c"]) if g["d"] else (g["wide"], g["wide"])
    if not {c, d} <= set(_KINDS.get((shape, kind), ())):
        raise ValueError(f"{shape} does not make .{d} of .{kind} and .{c}")
    if g["sat"] and kind not in ("s8", "u8"):
        raise ValueError(f".satfinite of .{kind} is not modelled")
    forms = (fragment("c", shape, d), fragment("a", shape, kind), fragment("b", shape, kind))
    product = Product((d, kind, kind, c), (*forms, fragment("c", shape, c)), bool(g["sat"]))
    return product.step(compiler, ins.operands)


# --- the same in machine code -----------------------------------------------------------


def in_machine_code(opcode: str) -> list[tuple[str, int]]:
    """The instructions that a wmma becomes, as names of `sass_check.KINDS`, and a lane's bytes.

    Empty for an opcode that is not modelled.
    """
    rest = opcode.removeprefix("wmma")
    if product := re.fullmatch(_MMA, rest):
        return [(_PRODUCTS.get(product["type"], "mma of floats"), 0)] * _products(product)
    found = re.fullmatch(_LOAD, rest) or re.fullmatch(_STORE, rest)
    if found is None:
        return []
    groups = found.groupdict()
    which, verb = groups.get("which", "d"), "ld" if "which" in groups else "st"
    kind = f"{verb}.{groups['space']}" if groups["space"] else f"generic {verb}"
    return [
        ("ldmatrix", 0) if part.matrices else (kind, part.width)
        for part in _accesses(_fragment("c" if which == "d" else which, groups), which, groups)
    ]


_PRODUCTS = {**dict.fromkeys(("s8", "u8"), "mma of integers"), "f64": "mma of doubles"}


def _products(found: re.Match[str]) -> int:
    """HMMA.16816 and IMMA.16816 make 16x8 of C; tf32 takes HMMA.1684, fp64 one DMMA.884."""
    return {"f64": 1, "tf32": 4}.get(found["type"], 2)
