"""Extended-precision arithmetic. PTX ISA, "Extended-Precision Integer Arithmetic Instructions".

The carry flag CC.CF is a special register that no PTX text can name; a slot holds it for every
lane, and only the instructions here read and write it. It is 0 when a kernel starts.

The ISA has subtractions write their borrow. On an H200 (2026-11-30) they write its opposite and
read it so, as a − b is a + ~b + 1 there; the division of 128-bit integers that NVIDIA's compiler
makes relies on it, with an addc behind a subc.cc.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import TYPES, Array, Mask, constant
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Instruction, Special
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups, high_half
from tilewright.emulator.ops.registry import Step, op
from tilewright.emulator.specials import CARRY

_ISA = "Extended-Precision Integer Arithmetic Instructions"
_TYPE = r"\.(?P<type>[us](?:32|64))"

Sum = Callable[[Array, Array, Array], tuple[Array, Array]]  # a, b, carry → result, carry


def _add(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    partial = a + b
    total = partial + carry
    return total, (partial < a) | (total < partial)


def _subtract(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    return _add(a, ~b, carry)


def _step(
    compiler: Compiler,
    ins: Instruction,
    g: Groups,
    combine: Sum,
    start: int | None,
    product: str = "",
) -> Step:
    """d = a + b + carry, a + ~b + carry, or with `product` (lo, hi) d = (a · b) + c + carry.

    The carry is `start`, or CC.CF where that is None.
    """
    kind = f"u{g['type'][1:]}"
    dtype = TYPES[kind]
    into, *operands = ins.operands
    if len(operands) != (3 if product else 2):
        raise ValueError(f"{len(operands)} sources")
    writes_flag = bool(g["writes"])
    put = compiler.dest(into, kind)
    signed = g["type"] if product == "hi" else kind
    fetches = [compiler.source(operand, signed) for operand in operands]
    flag = compiler.source(Special(CARRY), "u32")
    slot = compiler.specials[CARRY]
    given = None if start is None else constant(start, dtype)

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        values = [fetch(regs) for fetch in fetches]
        if product:
            a, b, c = values
            values = [high_half(a, b) if product == "hi" else a * b, c]
        left, right = (value.view(dtype) for value in values)
        before = flag(regs).astype(dtype) if given is None else given
        result, carry = combine(left, right, before)
        put(regs, result, mask)
        if writes_flag:
            bit = carry.astype(np.uint32)
            regs[slot] = bit if mask is None else np.where(mask, bit, regs[slot])

    return step


@op("add", rf"(?P<writes>\.cc){_TYPE}", f"{_ISA}: add.cc")
@op("addc", rf"(?P<writes>\.cc)?{_TYPE}", f"{_ISA}: addc")
def add(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return _step(compiler, ins, g, _add, None if ins.mnemonic == "addc" else 0)


@op("sub", rf"(?P<writes>\.cc){_TYPE}", f"{_ISA}: sub.cc")
@op("subc", rf"(?P<writes>\.cc)?{_TYPE}", f"{_ISA}: subc")
def sub(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return _step(compiler, ins, g, _subtract, None if ins.mnemonic == "subc" else 1)


@op("mad", rf"\.(?P<half>lo|hi)(?P<writes>\.cc){_TYPE}", f"{_ISA}: mad.cc")
@op("madc", rf"\.(?P<half>lo|hi)(?P<writes>\.cc)?{_TYPE}", f"{_ISA}: madc")
def mad(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    start = None if ins.mnemonic == "madc" else 0
    return _step(compiler, ins, g, _add, start, product=g["half"])
