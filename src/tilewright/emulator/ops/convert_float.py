"""cvt between floating types, and to integral floats. PTX ISA, "cvt"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Instruction
from tilewright.emulator.numeric import (
    F32,
    FORMATS,
    Format,
    bf16_bits,
    clamped,
    flushed,
    fp16_bits,
    positive,
    rounded,
)
from tilewright.emulator.ops.convert import BITS, float64
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op

_ISA = "Data Movement and Conversion Instructions: cvt"
_FLOAT = "f16|bf16|f32|f64"
_PRECISION = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _encode(kind: str) -> Callable[[Array], Array]:
    """From float64 that the type holds to what `BITS` stores."""
    if kind == "f64":
        return lambda value: value
    if kind == "f32":
        return lambda value: value.astype(np.float32)
    return FORMATS[kind].bits


def _narrows(have: str, want: str) -> bool:
    """Whether the conversion can be inexact: neither f16 nor bf16 holds the other."""
    return _PRECISION[want] < _PRECISION[have] or (have, want) == ("bf16", "f16")


@op(
    "cvt",
    r"(?:\.(?P<mode>rn|rz|rm|rp))?(?P<ftz>\.ftz)?(?P<sat>\.sat)?"
    rf"\.(?P<to>{_FLOAT})\.(?P<type>{_FLOAT})",
    _ISA,
)
def between_floats(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """A narrowing names its rounding, a widening none. .ftz is about fp32, on either side."""
    have, want, mode = g["type"], g["to"], g["mode"]
    if bool(mode) != _narrows(have, want):
        raise ValueError(f".{have} to .{want} takes {'no' if mode else 'a'} rounding")
    if g["ftz"] and "f32" not in (have, want):
        raise ValueError(".ftz is about f32")
    if g["sat"] and "bf16" in (have, want):
        raise ValueError("bf16 takes no .sat")
    if have == want and not g["ftz"] and not g["sat"]:
        return apply(compiler, ins, lambda a: a, BITS[have], BITS[want])
    if mode == "rn" and have == "f32" and not g["ftz"] and not g["sat"]:
        return apply(compiler, ins, fp16_bits if want == "f16" else bf16_bits, "f32", "b16")
    wide, narrow = float64(have), _encode(want)
    to = FORMATS.get(want)

    def function(a: Array) -> Array:
        value = wide(a)
        if g["ftz"] and have == "f32":
            value = flushed(value, F32.normal)
        if mode and to is not None:
            value = rounded(value, to, mode)
        if g["ftz"] and want == "f32":
            value = flushed(value, F32.normal)
        return narrow(clamped(value) if g["sat"] else value)

    return apply(compiler, ins, function, BITS[have], BITS[want])


@op(
    "cvt",
    rf"\.(?P<mode>{'|'.join(_WHOLE)})(?P<ftz>\.ftz)?(?P<sat>\.sat)?\.(?P<type>{_FLOAT})\.(?P=type)",
    _ISA,
)
def to_integral(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind, whole = g["type"], _WHOLE[g["mode"]]
    if g["ftz"] and kind != "f32":
        raise ValueError(".ftz is about f32")
    if g["sat"] and kind == "bf16":
        raise ValueError("bf16 takes no .sat")
    wide, narrow = float64(kind), _encode(kind)

    def function(a: Array) -> Array:
        value = wide(a)
        value = whole(flushed(value, F32.normal) if g["ftz"] else value)
        return narrow(clamped(value) if g["sat"] else value)

    return apply(compiler, ins, function, BITS[kind], BITS[kind])


# --- .relu, .satfinite and pairs --------------------------------------------------------


def narrowed(value: Array, to: Format, mode: str, relu: bool, satfinite: bool) -> Array:
    """float64 → bits of a format; `satfinite` gives its largest number for what is beyond it."""
    result = rounded(value, to, mode)
    if satfinite:
        result = np.where(np.abs(result) > to.greatest, np.copysign(to.greatest, result), result)
    return to.bits(positive(result) if relu else result)


def _from_single(g: Groups, to: Format) -> Callable[[Array], Array]:
    relu, satfinite, mode = bool(g["relu"]), bool(g["satfinite"]), g["mode"]
    if mode == "rn" and not relu and not satfinite:
        return fp16_bits if to.name == "f16" else bf16_bits
    return lambda a: narrowed(a.astype(np.float64), to, mode, relu, satfinite)


_FLAGS = r"(?P<relu>\.relu)?(?P<satfinite>\.satfinite)?"


@op("cvt", r"\.(?P<mode>rn|rz)(?P<relu>\.relu)(?P<satfinite>\.satfinite)?"
    r"\.(?P<to>f16|bf16)\.f32", _ISA)  # fmt: skip
@op("cvt", r"\.(?P<mode>rn|rz)(?P<relu>)(?P<satfinite>\.satfinite)\.(?P<to>f16|bf16)\.f32", _ISA)
def to_half(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The plain forms are among those between all floats."""
    return apply(compiler, ins, _from_single(g, FORMATS[g["to"]]), "f32", "b16")


@op("cvt", rf"\.(?P<mode>rn|rz){_FLAGS}\.(?P<to>f16|bf16)x2\.f32", _ISA)
def packed(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The first source goes to the upper half."""
    bits = _from_single(g, FORMATS[g["to"]])

    def function(high: Array, low: Array) -> Array:
        return bits(high).astype(np.uint32) << np.uint32(16) | bits(low)

    return apply(compiler, ins, function, "f32 f32", "b32")


@op("cvt", r"\.(?P<mode>rna)(?P<satfinite>\.satfinite)?(?P<relu>)\.tf32\.f32", _ISA)
@op("cvt", r"\.(?P<mode>rn|rz)(?P<satfinite>\.satfinite)?(?P<relu>\.relu)?\.tf32\.f32", _ISA)
def to_tf32(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """fp32 bits whose low 13 are 0; .rna rounds ties away from zero."""
    relu, satfinite, to = bool(g["relu"]), bool(g["satfinite"]), FORMATS["tf32"]

    def function(a: Array) -> Array:
        return narrowed(a.astype(np.float64), to, g["mode"], relu, satfinite)

    return apply(compiler, ins, function, "f32", "b32")
