"""fp32 and fp64 arithmetic, rounded once in every mode. PTX ISA, "Floating-Point Instructions".

A NaN result of fp32 has no defined payload where the host computes it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.exact import fma32, operate64, signed_sum
from tilewright.emulator.ir import Instruction
from tilewright.emulator.numeric import F32, clamped, flushed, rounded
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op

_ISA = "Floating-Point Instructions"
_MODE = r"(?P<mode>rn|rz|rm|rp)"
_AFTER = r"(?P<ftz>\.ftz)?(?P<sat>\.sat)?\.(?P<type>f32)"

# Nearest even, by the host.
_NEAREST: dict[str, Callable[..., Array]] = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "fma": fma32},
    **{"div": np.divide, "sqrt": np.sqrt},
}


def _wide(name: str, mode: str) -> Callable[..., Array]:
    """An operation on float64 copies of fp32 numbers; any rounding to fp32 of it is right.

    Quotients and roots of 24-bit numbers come no nearer than 2**-51 to a number of 25 bits that
    they do not equal, so that the rounding to float64 keeps them on their side of it.
    """
    operations: dict[str, Callable[..., Array]] = {
        "add": lambda a, b: signed_sum(a, b, mode),
        "sub": lambda a, b: signed_sum(a, -b, mode),
        "mul": np.multiply,
        "fma": lambda a, b, c: signed_sum(a * b, c, mode),
        "div": np.divide,
        "sqrt": np.sqrt,
    }
    return operations[name]


def single(name: str, mode: str, ftz: bool, sat: bool) -> Callable[..., Array]:
    """The function of float32 arrays: flush, compute, round once, flush, clamp."""
    nearest, wide = _NEAREST[name], _wide(name, mode)

    def function(*operands: Array) -> Array:
        if ftz:
            operands = tuple(flushed(x, F32.normal) for x in operands)
        if mode == "rn":
            result = nearest(*operands)
        else:
            exact = wide(*[x.astype(np.float64) for x in operands])
            result = rounded(exact, F32, mode).astype(np.float32)
        if ftz:
            result = flushed(result, F32.normal)
        return clamped(result) if sat else result

    return nearest if mode == "rn" and not ftz and not sat else function


def double(name: str, mode: str) -> Callable[..., Array]:
    if name == "sub":
        return lambda a, b: operate64("add", mode, a, -b)
    return lambda *operands: operate64(name, mode, *operands)


def _build(compiler: Compiler, ins: Instruction, g: Groups, name: str, sources: int) -> Step:
    mode, kind = g["mode"] or "rn", g["type"]
    if kind == "f64":
        function = double(name, mode)
    else:
        function = single(name, mode, bool(g["ftz"]), bool(g.get("sat")))
    return apply(compiler, ins, function, " ".join([kind] * sources), kind)


def _arithmetic(name: str) -> None:
    """Registers add, sub and mul, whose rounding may be left out."""

    @op(name, rf"(?:\.{_MODE})?{_AFTER}", f"{_ISA}: {name}")
    @op(name, rf"(?:\.{_MODE})?\.(?P<type>f64)", f"{_ISA}: {name}")
    def build(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
        return _build(compiler, ins, g, name, 2)


for _name in ("add", "sub", "mul"):
    _arithmetic(_name)


@op("fma", rf"\.{_MODE}{_AFTER}", f"{_ISA}: fma")
@op("fma", rf"\.{_MODE}\.(?P<type>f64)", f"{_ISA}: fma")
@op("mad", rf"\.{_MODE}{_AFTER}", f"{_ISA}: mad")
@op("mad", rf"\.{_MODE}\.(?P<type>f64)", f"{_ISA}: mad")
def fma(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return _build(compiler, ins, g, "fma", 3)


@op("div", rf"\.{_MODE}(?P<ftz>\.ftz)?\.(?P<type>f32)", f"{_ISA}: div")
@op("div", rf"\.{_MODE}\.(?P<type>f64)", f"{_ISA}: div")
def div(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return _build(compiler, ins, g, "div", 2)


@op("sqrt", rf"\.{_MODE}(?P<ftz>\.ftz)?\.(?P<type>f32)", f"{_ISA}: sqrt")
@op("sqrt", rf"\.{_MODE}\.(?P<type>f64)", f"{_ISA}: sqrt")
def sqrt(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return _build(compiler, ins, g, "sqrt", 1)


@op("rcp", rf"\.{_MODE}(?P<ftz>\.ftz)?\.(?P<type>f32)", f"{_ISA}: rcp")
@op("rcp", rf"\.{_MODE}\.(?P<type>f64)", f"{_ISA}: rcp")
def rcp(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind, mode = g["type"], g["mode"]
    if kind == "f64":
        quotient = double("div", mode)
    else:
        quotient = single("div", mode, bool(g["ftz"]), sat=False)
    one = np.ones((1, 1, 1), np.float64 if kind == "f64" else np.float32)
    return apply(compiler, ins, lambda a: quotient(one, a), kind, kind)
