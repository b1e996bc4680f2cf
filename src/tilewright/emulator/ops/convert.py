"""cvt to and from integers, and cvt.pack. PTX ISA, "cvt", "cvt.pack".

Conversions between floating types are in `convert_float`, those of packed 8-bit ones in
`convert_packed`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import TYPES, Array
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.exact import odd_sum, stepped, two_sum
from tilewright.emulator.ir import Instruction
from tilewright.emulator.numeric import F32, FORMATS, clamped, flushed, rounded
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op

_ISA = "Data Movement and Conversion Instructions: cvt"
_INT = r"[us](?:8|16|32|64)"
_FLOAT = "f16|bf16|f32|f64"
BITS = {"f16": "b16", "bf16": "b16", "f32": "f32", "f64": "f64"}  # how a float is fetched


@op("cvt", rf"\.(?P<to>{_INT})\.(?P<type>{_INT})", _ISA)
def integer(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    to = TYPES[g["to"]]
    return apply(compiler, ins, lambda a: a.astype(to), g["type"], g["to"])


@op("cvt", rf"\.sat\.(?P<to>{_INT})\.(?P<type>{_INT})", _ISA)
def saturating(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    have, want = np.iinfo(TYPES[g["type"]]), np.iinfo(TYPES[g["to"]])
    least, most = max(have.min, want.min), min(have.max, want.max)
    if (least, most) == (have.min, have.max):
        raise ValueError(f".{g['to']} holds every .{g['type']}: .sat is not allowed")
    to = TYPES[g["to"]]
    return apply(compiler, ins, lambda a: np.clip(a, least, most).astype(to), g["type"], g["to"])


# --- integer → float --------------------------------------------------------------------


@op("cvt", rf"\.(?P<mode>rn|rz|rm|rp)(?P<sat>\.sat)?\.(?P<to>{_FLOAT})\.(?P<type>{_INT})", _ISA)
def from_integer(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Rounded once, also from 64 bits."""
    if g["to"] == "bf16" and (g["sat"] or g["type"].endswith("8")):
        raise ValueError("bf16 takes neither .sat nor integers of 8 bits")
    function, sat = _from_integer(g["to"], g["mode"]), bool(g["sat"])
    to = FORMATS.get(g["to"])

    def convert(a: Array) -> Array:
        value = function(a)
        if sat:
            value = clamped(value)
        return value if g["to"] in ("f32", "f64") or to is None else to.bits(value)

    return apply(compiler, ins, convert, g["type"], BITS[g["to"]])


def _from_integer(to: str, mode: str) -> Callable[[Array], Array]:
    """The function to float32 or float64, whose values are those of the format `to`."""
    if mode == "rn" and to in ("f32", "f64"):
        return lambda a: a.astype(TYPES[to])
    if to == "f64":
        return lambda a: _directed(a, mode)
    narrow = FORMATS[to]
    dtype = np.dtype(np.float32 if to == "f32" else np.float64)
    return lambda a: rounded(odd_sum(*_digits(a)), narrow, mode).astype(dtype)


def _digits(a: Array) -> tuple[Array, Array]:
    """Two float64 numbers whose sum is the integer."""
    wide = a.astype(np.int64 if a.dtype.kind == "i" else np.uint64)
    low = wide & wide.dtype.type(0xFFFF_FFFF)
    return (wide - low).astype(np.float64), low.astype(np.float64)


def _directed(a: Array, mode: str) -> Array:
    total, error = two_sum(*_digits(a))
    return stepped(total, -np.sign(error), mode)


# --- float → integer --------------------------------------------------------------------

_ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_WHOLE = "|".join(_ROUND)


@op("cvt", rf"\.(?P<mode>{_WHOLE})(?P<ftz>\.ftz)?(?:\.sat)?\.(?P<to>{_INT})\.(?P<type>f32)", _ISA)
@op("cvt", rf"\.(?P<mode>{_WHOLE})(?:\.sat)?\.(?P<to>{_INT})\.(?P<type>f16|bf16|f64)", _ISA)
def to_integer(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Out of range saturates. NaN gives 0 to 32 bits or less but from f64, else the top bit."""
    if g["type"] == "bf16" and g["to"].endswith("8"):
        raise ValueError("bf16 does not become an integer of 8 bits")
    to, rounding = TYPES[g["to"]], _ROUND[g["mode"]]
    ftz, limits = bool(g.get("ftz")), np.iinfo(to)
    narrow = g["type"] != "f64" and limits.bits < 64
    nan = to.type(0 if narrow else limits.min or 1 << limits.bits - 1)
    most = to.type(limits.max)
    end = float(limits.max)  # of 64 bits it rounds up to the first that is too large
    wide = float64(g["type"])

    def function(a: Array) -> Array:
        whole = rounding(wide(flushed(a, F32.normal) if ftz else a))
        below = whole < end
        inside = np.where(below, np.maximum(whole, float(limits.min)), 0).astype(to)
        return np.where(np.isnan(whole), nan, np.where(below, inside, most))

    return apply(compiler, ins, function, BITS[g["type"]], g["to"])


def float64(kind: str) -> Callable[[Array], Array]:
    """The function from what `BITS` fetches to float64, exact."""
    if kind in ("f32", "f64"):
        return lambda a: a.astype(np.float64, copy=False)
    return FORMATS[kind].value


# --- packed integers --------------------------------------------------------------------


def _clipped(a: Array, kind: str) -> Array:
    """s32 saturated to a type of few bits, those bits as uint32."""
    bits = int(kind[1:])
    least, most = (
        (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    )
    return np.clip(a.astype(np.int64), least, most).astype(np.uint32) & np.uint32((1 << bits) - 1)


@op("cvt", r"\.pack\.sat\.(?P<to>[us]16)\.s32", f"{_ISA}.pack")
def pack(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    def function(a: Array, b: Array) -> Array:
        return _clipped(a, g["to"]) << np.uint32(16) | _clipped(b, g["to"])

    return apply(compiler, ins, function, "s32 s32", "b32")


@op("cvt", r"\.pack\.sat\.(?P<to>[us][248])\.s32\.b32", f"{_ISA}.pack")
def pack_onto(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """b lowest, a above it, and above both c, moved up."""
    bits = np.uint32(int(g["to"][1:]))

    def function(a: Array, b: Array, c: Array) -> Array:
        pair = _clipped(a, g["to"]) << bits | _clipped(b, g["to"])
        return c << bits + bits | pair

    return apply(compiler, ins, function, "s32 s32 b32", "b32")
