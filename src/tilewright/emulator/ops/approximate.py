"""Approximations in fp32 and fp64. PTX ISA, "Floating-Point Instructions".

Each one is computed in float64 and rounded once, so it is within the error that the ISA allows;
the hardware's own result may differ from it by as much as that error, which each builder names.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Instruction
from tilewright.emulator.numeric import F32, flushed
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op

_ISA = "Floating-Point Instructions"
_FTZ = r"(?P<ftz>\.ftz)?\.f32"
_HIGH = np.uint64(0xFFFF_FFFF_0000_0000)


def _single(compiler: Compiler, ins: Instruction, g: Groups, wide: Callable[..., Array]) -> Step:
    """A step that flushes (.ftz), computes in float64 and rounds to fp32."""
    ftz = bool(g.get("ftz"))

    def function(*operands: Array) -> Array:
        if ftz:
            operands = tuple(flushed(x, F32.normal) for x in operands)
        result: Array = wide(*[x.astype(np.float64) for x in operands]).astype(np.float32)
        return flushed(result, F32.normal) if ftz else result

    return apply(compiler, ins, function, " ".join(["f32"] * (len(ins.operands) - 1)), "f32")


def _rsqrt(a: Array) -> Array:
    root: Array = 1 / np.sqrt(a)
    return root


@op("div", rf"\.full{_FTZ}", f"{_ISA}: div")
def div_full(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Error in the ISA: 2 ulp."""
    return _single(compiler, ins, g, np.divide)


@op("div", rf"\.approx{_FTZ}", f"{_ISA}: div")
def div_approx(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Error in the ISA: 2 ulp for |b| in [2**-126, 2**126]; beyond, a · (1 / b) with 1 / b = 0."""

    def quotient(a: Array, b: Array) -> Array:
        size = np.abs(b)
        huge = (size > 2.0**126) & np.isfinite(b)
        result: Array = np.where(huge, a * np.copysign(0.0, b), a / b)
        return result

    return _single(compiler, ins, g, quotient)


@op("rcp", rf"\.approx{_FTZ}", f"{_ISA}: rcp")
def rcp(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Error in the ISA: 1 ulp."""
    return _single(compiler, ins, g, np.reciprocal)


@op("sqrt", rf"\.approx{_FTZ}", f"{_ISA}: sqrt")
def sqrt(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Error in the ISA: 2**-23 relative."""
    return _single(compiler, ins, g, np.sqrt)


@op("rsqrt", rf"\.approx{_FTZ}", f"{_ISA}: rsqrt")
def rsqrt(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Error in the ISA: 2**-22.9 relative."""
    return _single(compiler, ins, g, _rsqrt)


@op("rsqrt", r"\.approx\.f64", f"{_ISA}: rsqrt")
def rsqrt_f64(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Error here: 1 ulp; the ISA names none."""
    return apply(compiler, ins, _rsqrt, "f64", "f64")


def _gross(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The upper words of fp64 alone: the lower word of the source is ignored, the result's 0."""

    def upper(a: Array) -> Array:
        source = (a.view(np.uint64) & _HIGH).view(np.float64)
        result = flushed(function(flushed(source, 2.0**-1022)), 2.0**-1022)
        high: Array = (result.view(np.uint64) & _HIGH).view(np.float64)
        return np.where(np.isnan(result), np.uint64(0x7FFF_FFFF << 32).view(np.float64), high)

    return upper


@op("rcp", r"\.approx\.ftz\.f64", f"{_ISA}: rcp.approx.ftz.f64")
def rcp_gross(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Error in the ISA: about 2**-20 relative."""
    return apply(compiler, ins, _gross(np.reciprocal), "f64", "f64")


@op("rsqrt", r"\.approx\.ftz\.f64", f"{_ISA}: rsqrt.approx.ftz.f64")
def rsqrt_gross(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Error in the ISA: about 2**-20 relative."""
    return apply(compiler, ins, _gross(_rsqrt), "f64", "f64")


@op("sin", rf"\.approx{_FTZ}", f"{_ISA}: sin")
def sin(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Error in the ISA: 2**-20.5 absolute in [−2π, 2π], growing beyond."""
    return _single(compiler, ins, g, np.sin)


@op("cos", rf"\.approx{_FTZ}", f"{_ISA}: cos")
def cos(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Error in the ISA: 2**-20.5 absolute in [−2π, 2π], growing beyond."""
    return _single(compiler, ins, g, np.cos)


@op("lg2", rf"\.approx{_FTZ}", f"{_ISA}: lg2")
def lg2(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Error in the ISA: 2**-22 relative, absolute where the argument is in (0.5, 2)."""
    return _single(compiler, ins, g, np.log2)


@op("ex2", rf"\.approx{_FTZ}", f"{_ISA}: ex2")
def ex2(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Error in the ISA: 2 ulp."""
    return _single(compiler, ins, g, np.exp2)


@op("tanh", r"\.approx\.f32", f"{_ISA}: tanh")
def tanh(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Error in the ISA: 2**-11 relative."""
    return _single(compiler, ins, g, np.tanh)
