"""f16, f16x2, bf16, bf16x2 arithmetic. PTX ISA, "Half Precision Floating-Point Instructions".

Each operation is rounded once, to nearest even; a NaN result is 0x7FFF.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.exact import odd_sum
from tilewright.emulator.ir import Instruction
from tilewright.emulator.numeric import (
    FORMATS,
    clamped,
    flushed,
    on_halves,
    positive,
    rounded,
)
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op

_ISA = "Half Precision Floating-Point Instructions"
_F16 = r"(?P<ftz>\.ftz)?(?P<sat>\.sat)?\.(?P<type>f16|f16x2)"
_BF16 = r"\.(?P<type>bf16|bf16x2)"

_EXACT: dict[str, Callable[..., Array]] = {
    "add": odd_sum,
    "sub": lambda a, b: odd_sum(a, -b),
    "mul": np.multiply,
    "fma": lambda a, b, c: odd_sum(a * b, c),
}


def half(
    compiler: Compiler, ins: Instruction, g: Groups, exact: Callable[..., Array], sources: int
) -> Step:
    """A step that computes in float64 what `exact` says and rounds it to the type, per half."""
    kind = g["type"]
    to = FORMATS[kind.removesuffix("x2")]
    ftz, sat, relu = (bool(g.get(name)) for name in ("ftz", "sat", "relu"))

    def function(*raw: Array) -> Array:
        values = [to.value(x) for x in raw]
        if ftz:
            values = [flushed(x, to.normal) for x in values]
        result = rounded(exact(*values), to, "rn")
        if ftz:
            result = flushed(result, to.normal)
        if sat:
            result = clamped(result)
        return to.bits(positive(result) if relu else result)

    if kind.endswith("x2"):
        return apply(compiler, ins, on_halves(function), " ".join(["b32"] * sources), "b32")
    return apply(compiler, ins, function, " ".join(["b16"] * sources), "b16")


def _arithmetic(name: str) -> None:
    @op(name, rf"(?:\.rn)?{_F16}", f"{_ISA}: {name}")
    @op(name, rf"(?:\.rn)?{_BF16}", f"{_ISA}: {name}")
    def build(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
        return half(compiler, ins, g, _EXACT[name], 2)


for _name in ("add", "sub", "mul"):
    _arithmetic(_name)


@op("fma", rf"\.rn{_F16}", f"{_ISA}: fma")
@op("fma", r"\.rn(?P<ftz>\.ftz)?(?P<relu>\.relu)\.(?P<type>f16|f16x2)", f"{_ISA}: fma")
@op("fma", rf"\.rn(?P<relu>\.relu)?{_BF16}", f"{_ISA}: fma")
def fma(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return half(compiler, ins, g, _EXACT["fma"], 3)


@op("ex2", r"\.approx\.(?P<type>f16|f16x2)", f"{_ISA}: ex2")
@op("ex2", r"\.approx(?P<ftz>\.ftz)\.(?P<type>bf16|bf16x2)", f"{_ISA}: ex2")
def ex2(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Correctly rounded; the hardware may be off by 2**-9.9 (f16) or 2**-7 (bf16) relative."""
    return half(compiler, ins, g, np.exp2, 1)


@op("tanh", r"\.approx\.(?P<type>f16|f16x2|bf16|bf16x2)", f"{_ISA}: tanh")
def tanh(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Correctly rounded; the hardware may be off by 2**-10.987 (f16) or 2**-8 (bf16)."""
    return half(compiler, ins, g, np.tanh, 1)
