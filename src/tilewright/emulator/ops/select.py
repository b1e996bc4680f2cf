"""selp and slct. PTX ISA, "Comparison and Selection Instructions"."""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Instruction
from tilewright.emulator.numeric import F32, flushed
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op

_ISA = "Comparison and Selection Instructions"
_TYPE = r"(?P<type>[bus](?:16|32|64)|f32|f64)"


@op("selp", rf"\.{_TYPE}", f"{_ISA}: selp")
def selp(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind = g["type"]

    def function(a: Array, b: Array, p: Array) -> Array:
        return np.where(p, a, b)

    return apply(compiler, ins, function, f"{kind} {kind} pred", kind)


@op("slct", rf"(?P<ftz>)\.{_TYPE}\.(?P<by>s32)", f"{_ISA}: slct")
@op("slct", rf"(?P<ftz>\.ftz)?\.{_TYPE}\.(?P<by>f32)", f"{_ISA}: slct")
def slct(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """a where c ≥ 0 (−0 is), else b; a NaN selects b."""
    kind, ftz = g["type"], bool(g["ftz"])

    def function(a: Array, b: Array, c: Array) -> Array:
        return np.where((flushed(c, F32.normal) if ftz else c) >= 0, a, b)

    return apply(compiler, ins, function, f"{kind} {kind} {g['by']}", kind)
