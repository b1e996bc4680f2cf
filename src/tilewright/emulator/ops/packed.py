"""Integers packed in a word: dot products, 16-bit pairs, min and max with .relu.

PTX ISA, "Integer Arithmetic Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import TYPES, Array
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Instruction
from tilewright.emulator.numeric import on_halves
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op

_ISA = "Integer Arithmetic Instructions"
_TYPES = r"\.(?P<a>u32|s32)\.(?P<b>u32|s32)"


def _parts(word: Array, kind: str, bits: int) -> list[Array]:
    """The 8- or 16-bit fields of a word as int64, the lowest first."""
    dtype = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{bits // 8}")
    raw = np.ascontiguousarray(word)[..., None].view(dtype)
    return [raw[..., i].astype(np.int64) for i in range(32 // bits)]


def _dot(compiler: Compiler, ins: Instruction, g: Groups, bits: int, pick: slice) -> Step:
    """c + Σ a[i] · b[j], modulo 2**32; the fields of b are bytes, cut out by `pick`."""
    result = "u32" if g["a"] == g["b"] == "u32" else "s32"

    def function(a: Array, b: Array, c: Array) -> Array:
        total = c.astype(np.int64)
        for x, y in zip(_parts(a, g["a"], bits), _parts(b, g["b"], 8)[pick], strict=True):
            total = total + x * y
        return total.astype(TYPES[result])

    return apply(compiler, ins, function, f"b32 b32 {result}", result)


@op("dp4a", _TYPES, f"{_ISA}: dp4a")
def dp4a(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return _dot(compiler, ins, g, 8, slice(0, 4))


@op("dp2a", rf"\.(?P<half>lo|hi){_TYPES}", f"{_ISA}: dp2a")
def dp2a(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return _dot(compiler, ins, g, 16, slice(0, 2) if g["half"] == "lo" else slice(2, 4))


_PAIRS: dict[str, Callable[[Array, Array], Array]] = {
    **{"add": np.add, "min": np.minimum, "max": np.maximum},
}


def _pairs(name: str) -> None:
    @op(name, r"(?P<relu>)\.(?P<type>[us]16)x2", f"{_ISA}: {name}")
    @op(name, r"(?P<relu>\.relu)\.(?P<type>s16)x2", f"{_ISA}: {name}")
    @op(name, r"\.(?P<type>s16)x2(?P<relu>\.relu)", f"{_ISA}: {name}")
    def build(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
        dtype, combine = TYPES[g["type"]], _PAIRS[name]
        if g["relu"] and name == "add":
            raise ValueError("add has no .relu")

        def function(a: Array, b: Array) -> Array:
            result = combine(a.view(dtype), b.view(dtype))
            if g["relu"]:
                result = np.maximum(result, dtype.type(0))
            return result.view(np.uint16)

        return apply(compiler, ins, on_halves(function), "b32 b32", "b32")


for _name in _PAIRS:
    _pairs(_name)


def _with_relu(name: str) -> None:
    @op(name, r"\.relu\.s32|\.s32\.relu", f"{_ISA}: {name}")
    def build(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
        combine = _PAIRS[name]

        def function(a: Array, b: Array) -> Array:
            return np.maximum(combine(a, b), np.int32(0))

        return apply(compiler, ins, function, "s32 s32", "s32")


for _name in ("min", "max"):
    _with_relu(_name)


@op("vabsdiff4", rf"\.(?:u32|s32){_TYPES}(?P<add>\.add)?", "Video Instructions: vabsdiff4")
def vabsdiff4(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """The differences of four bytes without their sign; with .add their sum and c."""

    def function(a: Array, b: Array, c: Array) -> Array:
        pairs = zip(_parts(a, g["a"], 8), _parts(b, g["b"], 8), strict=True)
        sizes = [np.abs(x - y) for x, y in pairs]
        total = c.astype(np.int64) if g["add"] else np.zeros((1, 1, 1), np.int64)
        for place, size in enumerate(sizes):
            total = total + (size if g["add"] else (size & 255) << 8 * place)
        return total.astype(np.uint32)

    return apply(compiler, ins, function, "b32 b32 u32", "b32")
