"""setp and selp. PTX ISA, "Comparison and Selection Instructions"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.ir import Instruction, Pair
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups, apply
from tilewright.emulator.ops.registry import Step, op

_ISA = "Comparison and Selection Instructions"

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


@op(
    "setp",
    r"\.(?P<test>[a-z]+?)(?:\.(?P<bool>and|or|xor))?\.(?P<type>[bus](?:16|32|64)|f(?:16|32|64))",
    f"{_ISA}: setp",
)
def setp(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """With two destinations p|q, q gets the opposite test, combined in the same way."""
    into, first, second, *rest = ins.operands
    kind, compare = g["type"], _TESTS[g["type"][0]].get(g["test"])
    if compare is None:
        raise ValueError(f".{g['test']} does not compare .{kind}")
    if not g["bool"] and not isinstance(into, Pair):
        return apply(compiler, ins, compare, f"{kind} {kind}", "pred")
    if len(rest) != (1 if g["bool"] else 0):
        raise ValueError("a predicate goes with .and, .or and .xor, and only with them")
    a, b = compiler.source(first, kind), compiler.source(second, kind)
    c = compiler.source(rest[0], "pred") if rest else None
    combine = _COMBINE.get(g["bool"])
    put = compiler.dest(into.first if isinstance(into, Pair) else into, "pred")
    put_opposite = compiler.dest(into.second, "pred") if isinstance(into, Pair) else None

    def step(machine: Machine, mask: Mask) -> None:
        regs = machine.regs
        holds = compare(a(regs), b(regs))
        opposite = ~holds
        if c is not None and combine is not None:
            extra = c(regs)
            holds, opposite = combine(holds, extra), combine(opposite, extra)
        put(regs, holds, mask)
        if put_opposite is not None:
            put_opposite(regs, opposite, mask)

    return step


@op("selp", r"\.(?P<type>[busf](?:16|32|64))", f"{_ISA}: selp")
def selp(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    kind = g["type"]

    def function(a: Array, b: Array, p: Array) -> Array:
        return np.where(p, a, b)

    return apply(compiler, ins, function, f"{kind} {kind} pred", kind)
