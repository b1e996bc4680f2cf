"""wmma.load, wmma.mma and wmma.store. PTX ISA, "Matrix multiply-accumulate using wmma".

The ISA leaves open which lane holds what. Here it is as on an H200, where a fragment is made of
those of mma: the tests hold it to a recording.

Cost: a load or store counts as one access a register where its elements lie side by side in
memory, else as one an element. NVIDIA's compiler may choose wider ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tilewright.emulator.arrays import BY_WIDTH, TYPES, Array, Mask, join, split
from tilewright.emulator.compiler import SHARED_WINDOW, Compiler, Fetch
from tilewright.emulator.counters import priced
from tilewright.emulator.fragments import BITS, Layout, layout, mma_a, mma_b, mma_c
from tilewright.emulator.ir import Instruction, Operand, Vector
from tilewright.emulator.machine import Machine
from tilewright.emulator.memory import GLOBAL_BASE
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.matrix import Product
from tilewright.emulator.ops.memory import global_access, shared_access
from tilewright.emulator.ops.registry import Step, op
from tilewright.model import banks

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


@dataclass(frozen=True, slots=True)
class _Part:
    """One access of the warp: elements `first` to `first + count` of a register."""

    register: int
    first: int
    width: int  # bytes of a lane
    row: Array  # [1, 1, lanes]: what the stride multiplies
    column: Array


def _parts(form: Layout, order: str, bits: int) -> Iterator[_Part]:
    """The accesses that a fragment takes, in memory laid out by `order`."""
    rows, columns = form.cell // form.columns, form.cell % form.columns
    if order == "col":
        rows, columns = columns, rows
    registers, _, per = form.cell.shape
    steps = (columns[:, :, 1:] - columns[:, :, :-1] == 1) & (rows[:, :, 1:] == rows[:, :, :-1])
    for register in range(registers):
        count = per if steps[register].all() else 1
        for first in range(0, per, count):
            row, column = rows[register, :, first], columns[register, :, first]
            width = count * bits // 8
            yield _Part(register, first, width, row.reshape(1, 1, -1), column.reshape(1, 1, -1))


@dataclass(frozen=True, slots=True)
class _Memory:
    """The operand [address], stride of a load or store."""

    at: int
    space: str | None  # None: generic
    address: Fetch
    stride: Fetch | None
    tight: int  # the stride where none is given
    size: int  # bytes of an element

    def lanes(self, machine: Machine, part: _Part) -> Array:
        stride = self.tight if self.stride is None else self.stride(machine.regs).astype(np.int64)
        offset: Array = (part.row * stride + part.column) * self.size
        return self.address(machine.regs) + offset

    def load(self, machine: Machine, mask: Mask, part: _Part) -> Array:
        address = self.lanes(machine, part)
        if self.space == "shared":
            return _load_shared(machine, self.at, address, mask, part.width)
        if self.space == "global":
            return _load_global(machine, self.at, address, mask, part.width)
        shared, inside, outside = _sides(machine, address, mask)
        if not outside.any():
            return _load_shared(machine, self.at, address - SHARED_WINDOW, mask, part.width)
        if not inside.any():
            return _load_global(machine, self.at, address, mask, part.width)
        return np.where(
            shared,
            _load_shared(machine, self.at, address - SHARED_WINDOW, inside, part.width),
            _load_global(machine, self.at, address, outside, part.width),
        )

    def store(self, machine: Machine, mask: Mask, part: _Part, value: Array) -> None:
        address = self.lanes(machine, part)
        inside = outside = np.ones((1, 1, 1), bool)
        if self.space is None:
            _, inside, outside = _sides(machine, address, mask)
            base = SHARED_WINDOW
        else:
            inside, outside = inside & (self.space == "shared"), inside & (self.space == "global")
            base = 0
        if inside.any():
            price = priced(banks.shared_store, part.width)
            on = mask if not outside.any() else inside
            access = shared_access(machine, self.at, address - base, on, part.width, price)
            machine.shared.store(access, value)
        if outside.any():
            on = mask if not inside.any() else outside
            reached = global_access(machine, self.at, address, on, part.width)
            machine.memory.store(reached, value)


def _sides(machine: Machine, address: Array, mask: Mask) -> tuple[Array, Array, Array]:
    """Which generic addresses are shared memory's; the active lanes there and elsewhere."""
    shared: Array = (address >= SHARED_WINDOW) & (address < GLOBAL_BASE)
    on = np.ones((1, 1, 1), bool) if mask is None else mask
    return shared, shared & on, ~shared & on


def _load_shared(machine: Machine, at: int, address: Array, mask: Mask, width: int) -> Array:
    price = priced(banks.shared_load, width)
    return machine.shared.load(shared_access(machine, at, address, mask, width, price))


def _load_global(machine: Machine, at: int, address: Array, mask: Mask, width: int) -> Array:
    return machine.memory.load(global_access(machine, at, address, mask, width))


def _memory(
    compiler: Compiler, where: Sequence[Operand], space: str | None, form: Layout, g: Groups
) -> _Memory:
    if len(where) not in (1, 2):
        raise ValueError("an address and perhaps a stride are needed")
    stride = compiler.source(where[1], "u32") if len(where) == 2 else None
    tight = form.columns if g["order"] == "row" else form.rows
    size = BITS[g["type"]] // 8
    return _Memory(compiler.at, space, compiler.address(where[0]), stride, tight, size)


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


@op(
    "wmma",
    rf"\.load\.(?P<which>[abc])\.sync\.aligned\.(?P<order>row|col){_SHAPE}{_SPACE}"
    r"\.(?P<type>f16|bf16|tf32|s8|u8|f32|s32|f64)",
    f"{_ISA}.load",
)
def wmma_load(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    form, kind = _fragment(g["which"], g), g["type"]
    bits = BITS[kind]
    items = _items(ins.operands[0], form)
    memory = _memory(compiler, ins.operands[1:], g["space"], form, g)
    puts = [compiler.dest(item, _register(kind)) for item in items]
    dtype = TYPES[_register(kind)]
    same = [_first_alike(form.cell, i) for i in range(form.registers)]
    parts = [
        part for part in _parts(form, g["order"], bits) if same[part.register] == part.register
    ]

    def step(machine: Machine, mask: Mask) -> None:
        loaded: dict[int, list[Array]] = {}
        for part in parts:
            loaded.setdefault(part.register, []).append(memory.load(machine, mask, part))
        size = max(4, bits // 8)
        words = {i: join(pieces, size) for i, pieces in loaded.items()}
        for put, i in zip(puts, same, strict=True):
            put(machine.regs, words[i].view(dtype), mask)

    return step


def _first_alike(cell: Array, register: int) -> int:
    """The first register that holds the same elements."""
    return next(i for i in range(register + 1) if (cell[i] == cell[register]).all())


@op(
    "wmma",
    rf"\.store\.d\.sync\.aligned\.(?P<order>row|col){_SHAPE}{_SPACE}"
    r"\.(?P<type>f16|f32|s32|f64)",
    f"{_ISA}.store",
)
def wmma_store(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    form, kind = _fragment("c", g), g["type"]
    where = [operand for operand in ins.operands if not isinstance(operand, Vector)]
    (values,) = (operand for operand in ins.operands if isinstance(operand, Vector))
    memory = _memory(compiler, where, g["space"], form, g)
    fetches = [compiler.source(item, _register(kind)) for item in _items(values, form)]
    parts = list(_parts(form, g["order"], BITS[kind]))

    def step(machine: Machine, mask: Mask) -> None:
        for part in parts:
            word = np.broadcast_to(fetches[part.register](machine.regs), machine.full)
            dtype = BY_WIDTH[part.width]
            pieces = split(np.ascontiguousarray(word), dtype, word.itemsize // part.width)
            memory.store(machine, mask, part, pieces[part.first * memory.size // part.width])

    return step


def _register(kind: str) -> str:
    return {"f32": "f32", "f64": "f64"}.get(kind, "b32")


# --- mma --------------------------------------------------------------------------------


@op(
    "wmma",
    rf"\.mma\.sync\.aligned\.(?:row|col)\.(?:row|col){_SHAPE}(?:\.rn)?(?:"
    r"\.(?P<d>f16|f32)\.(?P<c>f16|f32)"
    r"|\.(?P<wide>f32|s32|f64)\.(?P<type>bf16|tf32|s8|u8|f64)\.(?P=type)\.(?P=wide))"
    r"(?:\.rn)?(?P<sat>\.satfinite)?",
    f"{_ISA}.mma",
)
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
