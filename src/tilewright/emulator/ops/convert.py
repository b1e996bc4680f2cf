"""cvt: between integers, between floating types, and packed. PTX ISA, "cvt"."""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import TYPES, Array
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Instruction
from tilewright.emulator.numeric import bf16_bits, bf16_value, fp16_bits
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op

_ISA = "Data Movement and Conversion Instructions: cvt"
_INT = r"[us](?:8|16|32|64)"


@op("cvt", rf"\.(?P<to>{_INT})\.(?P<type>{_INT})", _ISA)
def integer(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    to = TYPES[g["to"]]
    return apply(compiler, ins, lambda a: a.astype(to), g["type"], g["to"])


@op("cvt", rf"\.rn\.(?P<to>f32|f64)\.(?P<type>{_INT})", _ISA)
def from_integer(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    to = TYPES[g["to"]]
    return apply(compiler, ins, lambda a: a.astype(to), g["type"], g["to"])


_ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@op("cvt", r"\.(?P<mode>rni|rzi|rmi|rpi)\.(?P<to>[us](?:8|16|32|64))\.(?P<type>f32|f64)", _ISA)
def to_integer(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Out of range saturates. NaN gives 0 from f32 to 32 bits or less, else the top bit alone."""
    to, rounding = TYPES[g["to"]], _ROUND[g["mode"]]
    limits = np.iinfo(to)
    narrow = g["type"] == "f32" and limits.bits < 64
    nan = to.type(0 if narrow else limits.min or 1 << limits.bits - 1)
    most = to.type(limits.max)
    end = float(limits.max)  # of 64 bits it rounds up to the first that is too large

    def function(a: Array) -> Array:
        whole = rounding(a.astype(np.float64))
        below = whole < end
        inside = np.where(below, np.maximum(whole, float(limits.min)), 0).astype(to)
        return np.where(np.isnan(whole), nan, np.where(below, inside, most))

    return apply(compiler, ins, function, g["type"], g["to"])


@op("cvt", r"\.(?P<mode>rni|rzi|rmi|rpi)\.(?P<type>f32|f64)\.(?P=type)", _ISA)
def to_integral(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return apply(compiler, ins, _ROUND[g["mode"]], g["type"], g["type"])


@op("cvt", r"\.(?P<to>f64)\.(?P<type>f32)|\.rn\.(?P<narrow>f32)\.f64", _ISA)
def between_floats(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    to = g["to"] or g["narrow"]
    dtype = TYPES[to]
    return apply(compiler, ins, lambda a: a.astype(dtype), g["type"] or "f64", to)


@op("cvt", r"\.rn\.(?P<to>bf16|f16)\.f32", _ISA)
def to_half(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    function = bf16_bits if g["to"] == "bf16" else fp16_bits
    return apply(compiler, ins, function, "f32", "b16")


@op("cvt", r"\.f32\.(?P<type>bf16|f16)", _ISA)
def from_half(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    if g["type"] == "bf16":
        return apply(compiler, ins, bf16_value, "b16", "f32")
    return apply(compiler, ins, lambda a: a.astype(np.float32), "f16", "f32")


@op("cvt", r"\.rn\.(?P<to>bf16x2|f16x2)\.f32", _ISA)
def packed(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    bits = bf16_bits if g["to"] == "bf16x2" else fp16_bits

    def function(high: Array, low: Array) -> Array:
        return bits(high).astype(np.uint32) << np.uint32(16) | bits(low)

    return apply(compiler, ins, function, "f32 f32", "b32")
