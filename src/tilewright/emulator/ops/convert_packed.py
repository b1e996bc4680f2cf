"""cvt between pairs of 8-bit floats and f16x2 or two fp32. PTX ISA, "cvt"."""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Instruction
from tilewright.emulator.numeric import F16, FORMATS, halves, positive, words
from tilewright.emulator.ops.convert_float import narrowed
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op

_ISA = "Data Movement and Conversion Instructions: cvt"
_EIGHT = r"(?P<eight>e4m3|e5m2)x2"


@op("cvt", rf"\.rn\.satfinite(?P<relu>\.relu)?\.{_EIGHT}\.f32", _ISA)
def from_single(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The first source goes to the upper byte. Beyond the range, also ∞: the largest number."""
    to, relu = FORMATS[g["eight"]], bool(g["relu"])

    def function(high: Array, low: Array) -> Array:
        upper, lower = (
            narrowed(x.astype(np.float64), to, "rn", relu, satfinite=True).astype(np.uint16)
            for x in (high, low)
        )
        return upper << np.uint16(8) | lower

    return apply(compiler, ins, function, "f32 f32", "b16")


@op("cvt", rf"\.rn\.satfinite(?P<relu>\.relu)?\.{_EIGHT}\.f16x2", _ISA)
def from_pair(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    to, relu = FORMATS[g["eight"]], bool(g["relu"])

    def function(a: Array) -> Array:
        pair = narrowed(F16.value(halves(a)), to, "rn", relu, satfinite=True).astype(np.uint8)
        return np.ascontiguousarray(pair).view(np.uint16)[..., 0]

    return apply(compiler, ins, function, "b32", "b16")


@op("cvt", rf"\.rn(?P<relu>\.relu)?\.f16x2\.{_EIGHT}", _ISA)
def to_pair(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Exact."""
    have, relu = FORMATS[g["eight"]], bool(g["relu"])

    def function(a: Array) -> Array:
        value = have.value(np.ascontiguousarray(a)[..., None].view(np.uint8))
        return words(F16.bits(positive(value) if relu else value))

    return apply(compiler, ins, function, "b16", "b32")
