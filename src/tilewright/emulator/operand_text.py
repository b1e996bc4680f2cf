"""Operands as PTX writes them → operands."""

from __future__ import annotations

import re
from collections.abc import Callable

from tilewright.emulator.constants import constant
from tilewright.emulator.ir import (
    Address,
    Coordinates,
    Kernel,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from tilewright.emulator.literals import split

AXES = "xyzw"
_COLORS = dict(zip("rgba", AXES, strict=True))  # v.r is v.x
_SPECIAL = re.compile(
    r"%(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)\.[xyz]$"
    r"|%(?:laneid|warpid|nwarpid|smid|nsmid|gridid|clock|clock64|clock_hi|globaltimer"
    r"|globaltimer_lo|globaltimer_hi|lanemask_\w+|envreg\d+|pm\d+(?:_64)?|is_explicit_cluster"
    r"|cluster_ctarank|cluster_nctarank|dynamic_smem_size|total_smem_size|aggr_smem_size"
    r"|reserved_smem_offset_\w+|current_graph_exec)$"
)
_SUM = re.compile(r"([%\w$]+)\s*(?:([+-])\s*(.+))?$", re.S)
_ELEMENT = re.compile(r"([%\w$]+)\.([xyzwrgba])$")


class OperandReader:
    """Reads the operands of one kernel; `resolve` gives a name as its scope knows it."""

    def __init__(self, kernel: Kernel, resolve: Callable[[str], str]) -> None:
        self.kernel, self.resolve = kernel, resolve

    def operand(self, word: str) -> Operand:
        """Raises ValueError for what is not understood."""
        if word == "_":
            return Sink()
        if word[0] == "{" and word[-1] == "}":
            if word.count("{") > 1:
                raise ValueError("a vector holds no vectors")
            return Vector(tuple(self.operand(item) for item in split(word[1:-1])))
        if word[0] == "[" and word[-1] == "]":
            return self._address(word[1:-1].strip())
        if (literal := constant(word)) is not None:
            return literal
        if word.count("|") == 1:
            first, second = (half.strip() for half in word.split("|"))
            if first and second:
                return Pair(self.operand(first), self.operand(second))
        if word[0] == "!":
            return Register(self.resolve(word[1:].strip()), negated=True)
        if _SPECIAL.match(word):
            return Special(word)
        if (match := _ELEMENT.match(word)) and self._vector(match[1]):
            return self._element(match[1], match[2])
        return self._named(word)

    def _vector(self, word: str) -> list[str]:
        """The registers of a vector that is declared as one."""
        name = self.resolve(word)
        names = (f"{name}.{axis}" for axis in AXES)
        return [each for each in names if each in self.kernel.registers]

    def _element(self, word: str, axis: str) -> Register:
        name = f"{self.resolve(word)}.{_COLORS.get(axis, axis)}"
        if name not in self.kernel.registers:
            raise ValueError(f"{word} has no element .{axis}")
        return Register(name)

    def _named(self, word: str) -> Register | Symbol | Vector:
        name, offset = self._sum(word, f"the operand {word!r}")
        if name in self.kernel.registers:
            if offset:
                raise ValueError(f"the operand {word!r} adds to a register")
            return Register(name)
        if elements := self._vector(word):
            return Vector(tuple(map(Register, elements)))
        return Symbol(name, offset)

    def _address(self, word: str) -> Operand:
        if "[" in word:
            raise ValueError("an address holds no addresses")
        if len(parts := split(word)) > 1:
            return Coordinates(tuple(self.operand(part) for part in parts))
        if word and (literal := constant(word)) is not None:
            return Address(literal)
        name, offset = self._sum(word, f"the address [{word}]")
        if name in self.kernel.registers:
            return Address(Register(name), offset)
        return Address(Symbol(name), offset)

    def _sum(self, word: str, what: str) -> tuple[str, int]:
        """The name and the distance in `name`, `name+8`, `name+-8` or `name - 4*2`."""
        match = _SUM.match(word)
        if match is None:
            raise ValueError(f"{what} is not understood")
        if not match[3]:
            return self.resolve(match[1]), 0
        value = constant(match[2] + match[3])
        if value is None or value.float_bytes:
            raise ValueError(f"{what} is not understood: {match[3]!r} is not a constant offset")
        return self.resolve(match[1]), value.value
