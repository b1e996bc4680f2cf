"""Signs, classes, minima and maxima of every floating type. PTX ISA, "Floating-Point" and
"Half Precision Floating-Point Instructions"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Instruction
from tilewright.emulator.numeric import F32, FORMATS, Format, flushed, on_halves
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op

_ISA = "Floating-Point Instructions"
_HALF = "Half Precision Floating-Point Instructions"
_BITS = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32", "f32": "b32", "f64": "b64"}


def _lifted(kind: str, function: Callable[..., Array]) -> Callable[..., Array]:
    return on_halves(function) if kind.endswith("x2") else function


# --- signs, on bits ---------------------------------------------------------------------


@op("neg", r"(?P<ftz>\.ftz)?\.(?P<type>f32|f16|f16x2)", f"{_ISA}: neg")
@op("neg", r"\.(?P<type>f64|bf16|bf16x2)", f"{_ISA}: neg")
def neg(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Flips the sign bit, also of a NaN."""
    return _sign(compiler, ins, g, lambda raw, sign: raw ^ sign)


@op("abs", r"(?P<ftz>\.ftz)?\.(?P<type>f32|f16|f16x2)", f"{_ISA}: abs")
@op("abs", r"\.(?P<type>f64|bf16|bf16x2)", f"{_ISA}: abs")
def absolute(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return _sign(compiler, ins, g, lambda raw, sign: raw & ~sign)


def _sign(
    compiler: Compiler, ins: Instruction, g: Groups, change: Callable[[Array, Array], Array]
) -> Step:
    kind = g["type"]
    to = FORMATS.get(kind.removesuffix("x2"))
    ftz = bool(g.get("ftz"))

    def function(raw: Array) -> Array:
        sign = np.asarray(1 << 8 * raw.itemsize - 1, raw.dtype)
        if ftz and to is not None:
            small = np.abs(to.value(raw)) < to.normal
            raw = np.where(small, raw & sign, raw)
        return change(raw, sign)

    bits = _BITS[kind]
    return apply(compiler, ins, _lifted(kind, function), bits, bits)


@op("copysign", r"\.(?P<type>f32|f64)", f"{_ISA}: copysign")
def copysign(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The sign of a with the size of b."""
    kind = g["type"]
    return apply(compiler, ins, lambda a, b: np.copysign(b, a), f"{kind} {kind}", kind)


_CLASSES: dict[str, Callable[[Array, float], Array]] = {
    "finite": lambda a, normal: np.isfinite(a),
    "infinite": lambda a, normal: np.isinf(a),
    "number": lambda a, normal: ~np.isnan(a),
    "notanumber": lambda a, normal: np.isnan(a),
    "normal": lambda a, normal: np.isfinite(a) & ((np.abs(a) >= normal) | (a == 0)),
    "subnormal": lambda a, normal: (np.abs(a) < normal) & (a != 0),
}


@op("testp", rf"\.(?P<test>{'|'.join(_CLASSES)})\.(?P<type>f32|f64)", f"{_ISA}: testp")
def testp(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Zeros count as normal numbers."""
    test, kind = _CLASSES[g["test"]], g["type"]
    normal = F32.normal if kind == "f32" else 2.0**-1022
    return apply(compiler, ins, lambda a: test(a, normal), kind, "pred")


# --- min and max ------------------------------------------------------------------------


def _chosen(name: str, a: Array, b: Array, nan: bool) -> Array:
    """Of two zeros, −0 is the lesser; a NaN loses, or wins with `nan` (.NaN)."""
    if name == "min":
        best = np.where((a == 0) & (b == 0), -(-a - b), np.fmin(a, b))
    else:
        best = np.where((a == 0) & (b == 0), a + b, np.fmax(a, b))
    return np.where(np.isnan(a) | np.isnan(b), np.nan, best) if nan else best


def _extreme(name: str, g: Groups) -> Callable[..., Array]:
    """min or max of two or three values with .NaN, .xorsign and .abs."""
    nan, xorsign, sizes = bool(g["nan"]), bool(g.get("xorsign")), bool(g.get("abs"))

    def function(*values: Array) -> Array:
        flip = np.signbit(values[0]) ^ np.signbit(values[1]) if xorsign else None
        if xorsign or sizes:
            values = tuple(np.abs(x) for x in values)
        result = values[0]
        for other in values[1:]:
            result = _chosen(name, result, other, nan)
        return result if flip is None else np.where(flip, -result, result)

    return function


def _as_bits(to: Format, function: Callable[..., Array], ftz: bool) -> Callable[..., Array]:
    def on_bits(*raw: Array) -> Array:
        values = [to.value(x) for x in raw]
        if ftz:
            values = [flushed(x, to.normal) for x in values]
        return to.bits(function(*values))

    return on_bits


_CHOICE = r"(?P<nan>\.NaN)?(?P<xorsign>\.xorsign\.abs)?"


def _register(name: str) -> None:
    @op(name, rf"(?P<ftz>\.ftz)?{_CHOICE}\.(?P<type>f32|f16|f16x2)", f"{_ISA}: {name}")
    @op(name, rf"{_CHOICE}\.(?P<type>bf16|bf16x2)", f"{_HALF}: {name}")
    @op(name, r"(?P<ftz>\.ftz)?(?P<nan>\.NaN)?(?P<abs>\.abs)\.(?P<type>f32)", f"{_ISA}: {name}")
    def narrow(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
        """A NaN result is the canonical one. fp32 takes three sources too."""
        kind, sources = g["type"], len(ins.operands) - 1
        three = kind == "f32" and not g.get("xorsign")
        if sources != 3 if g.get("abs") else sources not in ((2, 3) if three else (2,)):
            raise ValueError(f"{sources} sources")
        to = FORMATS[kind.removesuffix("x2")]
        function = _as_bits(to, _extreme(name, g), bool(g.get("ftz")))
        bits = _BITS[kind]
        return apply(compiler, ins, _lifted(kind, function), " ".join([bits] * sources), bits)

    @op(name, r"\.f64", f"{_ISA}: {name}")
    def wide(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
        return apply(compiler, ins, lambda a, b: _chosen(name, a, b, False), "f64 f64", "f64")


for _name in ("min", "max"):
    _register(_name)
