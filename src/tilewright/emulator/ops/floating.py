"""fp32 and fp64 arithmetic. PTX ISA, "Floating-Point Instructions".

`fma.rn.f32` multiplies and adds in float64 and rounds once more to fp32: the product is exact
there, so the result differs from a single rounding only when the float64 sum is itself inexact
at a tie of fp32.
"""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Instruction
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op

_ISA = "Floating-Point Instructions"


@op("add", r"(?:\.rn)?\.(?P<type>f32|f64)", _ISA)
def add(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.add, f"{g['type']} {g['type']}", g["type"])


@op("sub", r"(?:\.rn)?\.(?P<type>f32|f64)", _ISA)
def sub(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.subtract, f"{g['type']} {g['type']}", g["type"])


@op("mul", r"(?:\.rn)?\.(?P<type>f32|f64)", _ISA)
def mul(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.multiply, f"{g['type']} {g['type']}", g["type"])


@op("div", r"\.rn\.(?P<type>f32|f64)", _ISA)
def div(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.divide, f"{g['type']} {g['type']}", g["type"])


@op("fma", r"\.rn\.f32", _ISA)
def fma(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    def function(a: Array, b: Array, c: Array) -> Array:
        return (a.astype(np.float64) * b + c).astype(np.float32)

    return apply(compiler, ins, function, "f32 f32 f32", "f32")


@op("neg", r"\.(?P<type>f32|f64)", _ISA)
def neg(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.negative, g["type"], g["type"])


@op("abs", r"\.(?P<type>f32|f64)", _ISA)
def absolute(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, np.abs, g["type"], g["type"])


@op("min", r"\.(?P<type>f32|f64)", _ISA)
def minimum(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    def function(a: Array, b: Array) -> Array:  # NaN loses; of two zeros, −0 is the lesser
        return np.where((a == 0) & (b == 0), -(-a - b), np.fmin(a, b))

    return apply(compiler, ins, function, f"{g['type']} {g['type']}", g["type"])


@op("max", r"\.(?P<type>f32|f64)", _ISA)
def maximum(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    def function(a: Array, b: Array) -> Array:
        return np.where((a == 0) & (b == 0), a + b, np.fmax(a, b))

    return apply(compiler, ins, function, f"{g['type']} {g['type']}", g["type"])
