"""ldmatrix, stmatrix and mma. PTX ISA, "Warp Level Matrix Instructions"."""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.compiler import Compiler, Fetch
from tilewright.emulator.counters import Price, priced, relative
from tilewright.emulator.ir import Instruction, Operand, Vector
from tilewright.emulator.machine import Machine
from tilewright.emulator.memory import Access
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op
from tilewright.model import banks

_ISA = "Warp Level Matrix Instructions"
_ROW_BYTES = 16  # a row of an 8x8 matrix of 16-bit elements
_SHAPE = r"\.sync\.aligned\.m8n8\.(?P<count>x1|x2|x4)(?P<trans>\.trans)?\.shared(?:::cta)?\.b16"


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


@op("ldmatrix", _SHAPE, f"{_ISA}: ldmatrix")
def ldmatrix(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Lane l gets elements 2·(l % 4) and the next of row l / 4 of each matrix."""
    count, transposed, at = int(g["count"][1]), bool(g["trans"]), compiler.at
    puts = [compiler.dest(item, "b32") for item in _items(ins.operands[0])]
    if len(puts) != count:
        raise ValueError(f".{g['count']} needs {count} registers")
    address, price = compiler.address(ins.operands[1]), priced(banks.ldmatrix, count)

    def step(machine: Machine, mask: Mask) -> None:
        access = _rows(machine, at, address, mask, count, price)
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
    address, price = compiler.address(ins.operands[0]), priced(banks.stmatrix, count)

    def step(machine: Machine, mask: Mask) -> None:
        access = _rows(machine, at, address, mask, count, price)
        lanes = [np.broadcast_to(fetch(machine.regs), machine.full) for fetch in fetches]
        matrices = np.stack(lanes, axis=2).view(np.uint16)
        matrices = matrices.reshape(*machine.full[:2], count, 8, 8)
        if transposed:
            matrices = matrices.swapaxes(-1, -2)
        rows = np.ascontiguousarray(matrices).view(np.complex128)
        machine.shared.store(access, rows.reshape(*machine.full[:2], 8 * count))

    return step


def _rows(
    machine: Machine, at: int, address: Fetch, mask: Mask, count: int, price: Price
) -> Access:
    """Lane 8·i + r gives the address of row r of matrix i."""
    where = address(machine.regs)
    access = machine.shared.access(machine.findings, at, where, mask, _ROW_BYTES, 8 * count)
    rows = [relative(access.address, access.active)]
    machine.counters.count(at, price, _ROW_BYTES, rows, machine.blocks)
    return access


@op(
    "mma",
    r"\.sync\.aligned\.m16n8k16\.row\.col\.f32\.(?P<type>bf16|f16)\.(?P=type)\.f32",
    f"{_ISA}: mma",
)
def mma(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The products are summed in fp32 in the order of the host's matrix product."""
    into, a, b, c = (_items(operand) for operand in ins.operands)
    if [len(part) for part in (into, a, b, c)] != [4, 4, 2, 4]:
        raise ValueError("m16n8k16 takes 4, 4, 2 and 4 registers")
    puts = [compiler.dest(item, "f32") for item in into]
    a_regs, b_regs = _sources(compiler, a, "b32"), _sources(compiler, b, "b32")
    c_regs = _sources(compiler, c, "f32")
    kind = g["type"]

    def step(machine: Machine, mask: Mask) -> None:
        regs, fragments = machine.regs, machine.fragments
        left = fragments.a(_fetched(a_regs, regs), kind)
        right = fragments.b(_fetched(b_regs, regs), kind)
        for put, value in zip(
            puts, fragments.multiply_add(left, right, _fetched(c_regs, regs)), strict=True
        ):
            put(regs, value, mask)

    return step


def _sources(compiler: Compiler, items: tuple[Operand, ...], kind: str) -> list[Fetch]:
    return [compiler.source(item, kind) for item in items]


def _fetched(fetches: list[Fetch], regs: list[Array]) -> list[Array]:
    return [fetch(regs) for fetch in fetches]
