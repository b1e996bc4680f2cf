"""Which lane and register of a warp holds which element of an mma operand, or of an ldmatrix.

With g = lane / 4 and t = lane % 4, and `per` elements in a register:
  A   register r: row g + 8 (r odd), columns per·t + i, and 4·per further for each two registers
  B   register r: column g, rows per·t + i + 4·per·r
  C   element e: row g + 8 (e >= 2), column 2·t + e % 2
ldmatrix gives register j the 8x8 matrix whose rows lanes 8j .. 8j+7 name: row g, columns 2·t and
the next one; with .trans rows 2·t and the next one of column g.
Source: PTX ISA 9.0, "Matrix Fragments" of mma.m16n8k4 .. k64 and m8n8k4, and "ldmatrix".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.errors import InputError

Place = Callable[[int, int, int], tuple[int, int]]  # lane, register, part -> row, column

WARP = 32
OPERANDS = ("A", "B", "C")

_BITS = {"f64": 64, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8,
         "s4": 4, "u4": 4}  # fmt: skip
_DEPTHS = {64: (4, 8, 16), 32: (4, 8), 16: (8, 16), 8: (16, 32), 4: (32, 64)}
_NAME = re.compile(
    r"(?:mma\.)?(?:sync\.)?(?:aligned\.)?m(\d+)n(\d+)k(\d+)(?:\.row\.col)?"
    r"(?:\.[fs]\w+(?=(?:\.\w+){3}$))?\.(\w+)(?:\.\w+\.[fs]\w+)?",
    re.ASCII,
)
_SAME = {"fp16": "f16", "half": "f16", "fp64": "f64", "double": "f64"}


@dataclass(frozen=True, slots=True)
class Mma:
    """One product of a warp: C[m, n] += A[m, k] · B[k, n]; A and B of type `dtype`."""

    m: int
    n: int
    k: int
    dtype: str

    @property
    def name(self) -> str:
        return f"mma.m{self.m}n{self.n}k{self.k}.{self.dtype}"

    @property
    def bits(self) -> int:
        return _BITS[self.dtype]

    @property
    def sum_type(self) -> str:
        """Of C, as the rungs use it."""
        if self.dtype == "f64":
            return "f64"
        return "s32" if self.dtype[0] in "su" else "f32"


@dataclass(frozen=True, slots=True)
class Holder:
    """The place of one element: bits [`part` * bits, ...) of register `register` of lane `lane`."""

    row: int
    column: int
    lane: int
    register: int
    part: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """A matrix in registers: `registers` a lane, each of `per` elements side by side.

    Or, where `down`, below each other. `letter` names the registers: a0, a1, ...
    """

    letter: str
    rows: int
    columns: int
    per: int
    registers: int
    down: bool
    holders: tuple[Holder, ...]

    def of_lane(self, lane: int) -> list[Holder]:
        """In the order of its registers."""
        mine = [holder for holder in self.holders if holder.lane == lane]
        return sorted(mine, key=lambda holder: (holder.register, holder.part))

    def places(self) -> dict[tuple[int, int], Holder]:
        """Who holds the element (row, column)."""
        return {(holder.row, holder.column): holder for holder in self.holders}


def mma_named(text: str) -> Mma:
    """mma.m16n8k16.bf16, m16n8k8.tf32, mma.m8n8k4.f64 and their like, or all of PTX's name.

    Raises: InputError for shapes and types that the hardware's mma does not have.
    """
    match = _NAME.fullmatch(text.strip().lower())
    if match is None:
        raise InputError(
            f"mma={text!r} is not read; write the shape and the type, as in mma.m16n8k16.bf16."
        )
    m, n, k = (int(match[at]) for at in (1, 2, 3))
    dtype = _SAME.get(match[4], match[4])
    if dtype not in _BITS:
        raise InputError(f"mma={text!r}: {match[4]} is not known; use {', '.join(_BITS)}.")
    depths = _DEPTHS[_BITS[dtype]]
    small = (m, n, k) == (8, 8, 4) and dtype == "f64"
    if not small and ((m, n) != (16, 8) or k not in depths):
        shapes = [f"m16n8k{depth}" for depth in depths] + ["m8n8k4"] * (dtype == "f64")
        raise InputError(
            f"mma={text!r}: of {dtype} there are {', '.join(shapes)} "
            "(wgmma and wmma keep their operands otherwise)."
        )
    return Mma(m, n, k, dtype)


def fragment(mma: Mma, operand: str) -> Fragment:
    """Raises: InputError for an operand other than A, B, C or D, which lies as C does."""
    word = operand.upper()
    word = "C" if word == "D" else word
    if word not in OPERANDS:
        raise InputError(f"operand={operand!r} must be A, B or C (D lies as C).")
    rows, columns = {"A": (mma.m, mma.k), "B": (mma.k, mma.n), "C": (mma.m, mma.n)}[word]
    per = 1 if word == "C" else max(1, 32 // mma.bits)
    place = _PLACES[word](per, mma.m // 8)
    return _fragment(word.lower(), (rows, columns), per, word == "B", place)


@dataclass(frozen=True, slots=True)
class Ldmatrix:
    """ldmatrix.m8n8 of 1, 2 or 4 matrices of 16-bit elements."""

    many: int
    trans: bool

    @property
    def name(self) -> str:
        return f"ldmatrix.x{self.many}{'.trans' if self.trans else ''}"

    def fragment(self) -> Fragment:
        """The matrices below each other: row 8·j + r is row r of matrix j, which lane 8·j + r
        names."""

        def place(lane: int, register: int, part: int) -> tuple[int, int]:
            row, column = lane // 4, 2 * (lane % 4) + part
            return (8 * register + column, row) if self.trans else (8 * register + row, column)

        return _fragment("r", (8 * self.many, 8), 2, self.trans, place)


def _fragment(letter: str, shape: tuple[int, int], per: int, down: bool, place: Place) -> Fragment:
    rows, columns = shape
    registers = rows * columns // (WARP * per)
    holders = tuple(
        Holder(*place(lane, register, part), lane, register, part)
        for lane in range(WARP)
        for register in range(registers)
        for part in range(per)
    )
    return Fragment(letter, rows, columns, per, registers, down, holders)


def _place_a(per: int, halves: int) -> Place:
    def place(lane: int, register: int, part: int) -> tuple[int, int]:
        high, along = register % halves, register // halves
        return lane // 4 + 8 * high, per * (lane % 4) + part + 4 * per * along

    return place


def _place_b(per: int, halves: int) -> Place:
    def place(lane: int, register: int, part: int) -> tuple[int, int]:
        return per * (lane % 4) + part + 4 * per * register, lane // 4

    return place


def _place_c(per: int, halves: int) -> Place:
    def place(lane: int, register: int, part: int) -> tuple[int, int]:
        return lane // 4 + 8 * (register // 2), 2 * (lane % 4) + register % 2

    return place


_PLACES = {"A": _place_a, "B": _place_b, "C": _place_c}
