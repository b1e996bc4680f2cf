"""setp and set. PTX ISA, "Comparison and Selection Instructions" and "Half Precision
Comparison Instructions"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.emulator.arrays import TYPES, Array, Mask
from tilewright.emulator.compiler import Compiler, Fetch
from tilewright.emulator.ir import Instruction, Operand, Pair
from tilewright.emulator.machine import Machine
from tilewright.emulator.numeric import F32, FORMATS, flushed, halves, words
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op

_ISA = "Comparison and Selection Instructions"
_HALF = "Half Precision Comparison Instructions"

Test = Callable[[Array, Array], Array]


def _ordered_not_equal(a: Array, b: Array) -> Array:
    return (a < b) | (a > b)


def _numbers(a: Array, b: Array) -> Array:
    return ~(np.isnan(a) | np.isnan(b))


def _not(test: Test) -> Test:
    return lambda a, b: ~test(a, b)


_EQUALITY: dict[str, Test] = {"eq": np.equal, "ne": np.not_equal}
_ORDER: dict[str, Test] = {
    **{"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal},
}
_UNSIGNED: dict[str, Test] = {
    **{"lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal},
}
_FLOAT: dict[str, Test] = {  # with NaN: false; those in -u and nan: true
    **{"eq": np.equal, "ne": _ordered_not_equal, **_ORDER},
    **{"equ": _not(_ordered_not_equal), "neu": np.not_equal},
    **{"ltu": _not(np.greater_equal), "leu": _not(np.greater)},
    **{"gtu": _not(np.less_equal), "geu": _not(np.less)},
    **{"num": _numbers, "nan": _not(_numbers)},
}
_TESTS: dict[str, dict[str, Test]] = {
    "b": _EQUALITY,
    "s": _EQUALITY | _ORDER,
    "u": _EQUALITY | _ORDER | _UNSIGNED,
    "f": _FLOAT,
}
_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


_BOOL = r"(?:\.(?P<bool>and|or|xor))?"
_FTZ = r"(?P<ftz>\.ftz)?"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What setp and set have in common: two values of a type, a test, perhaps a predicate."""

    a: Fetch
    b: Fetch
    test: Test
    extra: Fetch | None  # the predicate that the result is combined with
    combine: Test | None

    def holds(self, regs: list[Array]) -> Array:
        """The outcome; of packed halves […, 2]."""
        return self.test(self.a(regs), self.b(regs))

    def combined(self, outcome: Array, regs: list[Array]) -> Array:
        if self.extra is None or self.combine is None:
            return outcome
        extra = self.extra(regs)
        return self.combine(outcome, extra[..., None] if outcome.ndim > extra.ndim else extra)


def comparison(compiler: Compiler, operands: tuple[Operand, ...], g: Groups) -> Comparison:
    """Reads a, b and perhaps c of setp and set; `g` has test, bool, ftz and type."""
    first, second, *rest = operands
    kind = g["type"]
    test = _TESTS["f" if "f" in kind else kind[0]].get(g["test"])
    if test is None:
        raise ValueError(f".{g['test']} does not compare .{kind}")
    if len(rest) != (1 if g["bool"] else 0):
        raise ValueError("a predicate goes with .and, .or and .xor, and only with them")
    extra = compiler.source(rest[0], "pred") if rest else None
    a, b = (_values(compiler, operand, kind, bool(g["ftz"])) for operand in (first, second))
    return Comparison(a, b, test, extra, _COMBINE.get(g["bool"]))


def _values(compiler: Compiler, operand: Operand, kind: str, ftz: bool) -> Fetch:
    """The values to compare; those of 16-bit formats as float64, a packed pair as […, 2]."""
    to = FORMATS.get(kind.removesuffix("x2"))
    if kind in ("f32", "f64") or to is None:
        fetch = compiler.source(operand, kind)
        return (lambda regs: flushed(fetch(regs), F32.normal)) if ftz else fetch
    raw = compiler.source(operand, "b32" if kind.endswith("x2") else "b16")

    def read(regs: list[Array]) -> Array:
        bits = raw(regs)
        value = to.value(halves(bits) if kind.endswith("x2") else bits)
        return flushed(value, to.normal) if ftz else value

    return read


_PLAIN = r"[bus](?:16|32|64)|f64|bf16"  # types without .ftz


@op("setp", rf"\.(?P<test>[a-z]+?){_BOOL}(?P<ftz>)\.(?P<type>{_PLAIN})", f"{_ISA}: setp")
@op("setp", rf"\.(?P<test>[a-z]+?){_BOOL}{_FTZ}\.(?P<type>f32|f16)", f"{_ISA}: setp")
def setp(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """With two destinations p|q, q gets the opposite test, combined in the same way."""
    into, *sources = ins.operands
    compare = comparison(compiler, tuple(sources), g)
    put = compiler.dest(into.first if isinstance(into, Pair) else into, "pred")
    put_opposite = compiler.dest(into.second, "pred") if isinstance(into, Pair) else None

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        outcome = compare.holds(regs)
        results = [compare.combined(outcome, regs)]
        if put_opposite is not None:
            results.append(compare.combined(~outcome, regs))
        put(regs, results[0], mask)
        if put_opposite is not None:
            put_opposite(regs, results[1], mask)

    return step


@op("setp", rf"\.(?P<test>[a-z]+?){_BOOL}{_FTZ}\.(?P<type>f16x2)", f"{_HALF}: setp")
@op("setp", rf"\.(?P<test>[a-z]+?){_BOOL}(?P<ftz>)\.(?P<type>bf16x2)", f"{_HALF}: setp")
def setp_pair(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """p|q: p tests the lower halves, q the upper ones."""
    into, *sources = ins.operands
    if not isinstance(into, Pair):
        raise ValueError("the destination must be p|q")
    compare = comparison(compiler, tuple(sources), g)
    put_low, put_high = compiler.dest(into.first, "pred"), compiler.dest(into.second, "pred")

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        outcome = compare.combined(compare.holds(regs), regs)
        put_low(regs, outcome[..., 0], mask)
        put_high(regs, outcome[..., 1], mask)

    return step


# --- set --------------------------------------------------------------------------------

_TRUE: dict[str, int] = {  # the bits of a set result that holds
    **{"u16": 0xFFFF, "s16": 0xFFFF, "u32": 0xFFFF_FFFF, "s32": 0xFFFF_FFFF},
    **{"f32": 0x3F80_0000, "f16": 0x3C00, "bf16": 0x3F80},
}
_SET = rf"\.(?P<test>[a-z]+?){_BOOL}"


@op("set", rf"{_SET}(?P<ftz>)\.(?P<to>u32|s32|f32|f16|bf16)\.(?P<type>{_PLAIN})", f"{_ISA}: set")
@op("set", rf"{_SET}{_FTZ}\.(?P<to>u32|s32|f32|f16|bf16)\.(?P<type>f32|f16)", f"{_ISA}: set")
@op("set", rf"{_SET}{_FTZ}\.(?P<to>u16|s16)\.(?P<type>f16)", f"{_HALF}: set")
@op("set", rf"{_SET}(?P<ftz>)\.(?P<to>u16|s16)\.(?P<type>bf16)", f"{_HALF}: set")
def set_(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """1.0 or all bits where the test holds, else 0."""
    if g["to"] == "f32" and g["type"] in ("f16", "bf16"):
        raise ValueError(f"a test of .{g['type']} does not give .f32")
    into, *sources = ins.operands
    compare = comparison(compiler, tuple(sources), g)
    bits = "b16" if g["to"].endswith("16") else "b32"
    put, dtype = compiler.dest(into, bits), TYPES[bits]
    true, false = dtype.type(_TRUE[g["to"]]), dtype.type(0)

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        put(regs, np.where(compare.combined(compare.holds(regs), regs), true, false), mask)

    return step


@op("set", rf"{_SET}{_FTZ}\.(?P<to>f16x2|u32|s32)\.(?P<type>f16x2)", f"{_HALF}: set")
@op("set", rf"{_SET}(?P<ftz>)\.(?P<to>bf16x2|u32|s32)\.(?P<type>bf16x2)", f"{_HALF}: set")
def set_pair(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """1.0, or for an integer 0xFFFF, in each half where the test holds, else 0."""
    into, *sources = ins.operands
    compare, put = comparison(compiler, tuple(sources), g), compiler.dest(into, "b32")
    true = np.uint16(_TRUE.get(g["to"].removesuffix("x2"), 0) & 0xFFFF)

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        outcome = compare.combined(compare.holds(regs), regs)
        put(regs, words(np.where(outcome, true, np.uint16(0))), mask)

    return step
