"""wmma.load and wmma.store: the accesses of memory that NVIDIA's compiler makes of them.

Read off the machine code of sm_80, sm_86, sm_89, sm_90 and sm_120, which is the same in all:

- a and b in shared memory come by LDSM, a matrix of eight rows of 16 bytes a register: 16-bit
  elements in either order (LDSM.MT88 transposes), 8-bit ones where k lies along the memory's lines;
- all else is one access a register, of 4 bytes or of an f64;
- where the 16-bit elements of a register lie across the lines, each 8x8 matrix is read along them
  and transposed afterwards (MOVM.MT88);
- where 8-bit elements lie across the lines, each is an access of one byte;
- two registers of one element each that lie side by side in memory are one access of both.

An address without a space in the opcode is taken as the compiler takes it: LD and ST, no LDSM.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from tilewright.emulator.arrays import BY_WIDTH, LANES, Array, Mask
from tilewright.emulator.compiler import SHARED_WINDOW, Fetch
from tilewright.emulator.counters import priced
from tilewright.emulator.fragments import Layout
from tilewright.emulator.machine import Machine
from tilewright.emulator.memory import GLOBAL_BASE
from tilewright.emulator.ops.matrix import row_access
from tilewright.emulator.ops.memory import global_access, shared_access
from tilewright.model import banks


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """One access of the warp: lane l moves the elements `cells[l]`, which lie side by side.

    `cells` [lanes, elements] are flat row-major indices of the matrix, `line` and `along`
    [1, 1, 32] where each lane's first element lies: lines from the first, elements along one.
    `matrices` is how many LDSM brings at once, 8 lanes for each; 0 for an ordinary access.
    """

    cells: Array
    line: Array
    along: Array
    width: int  # bytes of a lane
    matrices: int = 0


@dataclass(frozen=True, slots=True)
class _Placed:
    """The elements of registers, [registers, lanes, elements], by their place in memory."""

    line: Array
    along: Array
    length: int  # elements of a row of the matrix
    across: bool  # lines are the matrix's columns
    bits: int

    @property
    def runs(self) -> bool:
        """Whether the elements of each register lie side by side."""
        steps = self.along[..., 1:] - self.along[..., :-1] == 1
        return bool((steps & (self.line[..., 1:] == self.line[..., :-1])).all())

    def matrices(self) -> tuple[Array, Array]:
        """The first line and element of each register's matrix, [registers, 1, 1]."""
        first: list[Array] = [x.min((1, 2), keepdims=True) for x in (self.line, self.along)]
        return first[0], first[1]

    def moved(self, line: Array, along: Array) -> _Placed:
        return _Placed(line, along, self.length, self.across, self.bits)

    def part(self, line: Array, along: Array, matrices: int = 0) -> Part:
        """Of elements [lanes, n]."""
        row, column = (along, line) if self.across else (line, along)
        width = line.shape[-1] * self.bits // 8
        starts = [np.resize(x[:, 0], (1, 1, LANES)) for x in (line, along)]
        return Part(row * self.length + column, starts[0], starts[1], width, matrices)


@cache
def parts(form: Layout, order: str, bits: int, by_rows: bool) -> tuple[Part, ...]:
    """The accesses that a fragment takes in memory of an `order`; `by_rows`: LDSM may be used."""
    _, once = np.unique(form.cell.reshape(form.registers, -1), axis=0, return_index=True)
    cell = form.cell[np.sort(once)]  # fp16 holds a and b twice on some shapes
    row, column = cell // form.columns, cell % form.columns
    line, along = (column, row) if order == "col" else (row, column)
    placed = _Placed(line, along, form.columns, order == "col", bits)
    if by_rows and (bits == 16 or (bits == 8 and placed.runs)):
        return tuple(_rows(placed))
    if bits == 16 and not placed.runs:
        placed = _transposed(placed)
    return tuple(_pairs(placed) if bits >= 32 else _registers(placed))


def _rows(placed: _Placed) -> Iterator[Part]:
    """LDSM.4 of 16-bit elements and LDSM.2 of bytes, which is what an mma takes of 16 rows."""
    line, along = placed.matrices()
    line, along = line + np.arange(8)[:, None], along + np.arange(128 // placed.bits)
    line, along = np.broadcast_arrays(line, along)  # [registers, 8, elements]
    count = min(len(line), 4 if placed.bits == 16 else 2)
    for i in range(0, len(line), count):
        several = [x[i : i + count].reshape(8 * count, -1) for x in (line, along)]
        yield placed.part(several[0], several[1], count)


def _transposed(placed: _Placed) -> _Placed:
    line, along = placed.matrices()
    return placed.moved(line + placed.along - along, along + placed.line - line)


def _registers(placed: _Placed) -> Iterator[Part]:
    many = placed.line.shape[2] if placed.runs else 1
    for line, along in zip(placed.line, placed.along, strict=True):
        for i in range(0, line.shape[1], many):
            yield placed.part(line[:, i : i + many], along[:, i : i + many])


def _pairs(placed: _Placed) -> Iterator[Part]:
    """Registers of one element each."""
    registers = len(placed.line)
    if registers % 2 == 0:
        both = placed.moved(
            *(
                np.moveaxis(x[..., 0].reshape(-1, 2, LANES), 1, 2)
                for x in (placed.line, placed.along)
            )
        )
        placed = both if both.runs else placed
    return _registers(placed)


# --- at run time ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reach:
    """The operand [address], stride of a load or store of a fragment."""

    at: int
    space: str | None  # None: generic
    address: Fetch
    stride: Fetch | None
    tight: int  # the stride where none is given
    size: int  # bytes of an element
    form: Layout
    parts: tuple[Part, ...]

    def load(self, machine: Machine, mask: Mask) -> Array:
        """The elements of the fragment, [blocks, W, registers, lanes, elements of a register]."""
        dtype, outer = BY_WIDTH[self.size], machine.full[:2]
        loaded = []
        for part in self.parts:
            piece = np.broadcast_to(self._load(machine, mask, part), (*outer, len(part.cells)))
            loaded.append(np.ascontiguousarray(piece).view(dtype))
        flat = np.concatenate(loaded, axis=-1)
        return np.take(flat, _inverse(self.parts)[self.form.cell], axis=-1)

    def store(self, machine: Machine, mask: Mask, elements: Array) -> None:
        """`elements` as `load` gives them."""
        flat = elements.reshape(*elements.shape[:2], -1)
        for part in self.parts:
            pieces = np.take(flat, self.form.place[part.cells], axis=-1)
            self._store(machine, mask, part, pieces.view(BY_WIDTH[part.width])[..., 0])

    def _lanes(self, machine: Machine, part: Part) -> Array:
        stride = (
            np.full((1, 1, 1), self.tight) if self.stride is None else self.stride(machine.regs)
        ).astype(np.int64)
        offset: Array = (part.line * stride + part.along) * self.size
        return self.address(machine.regs) + offset

    def _load(self, machine: Machine, mask: Mask, part: Part) -> Array:
        address = self._lanes(machine, part)
        if self.space == "shared":
            return self._load_shared(machine, address, mask, part)
        if self.space == "global":
            return self._load_global(machine, address, mask, part)
        shared, inside, outside = _sides(machine, address, mask)
        if not outside.any():
            return self._load_shared(machine, address - SHARED_WINDOW, mask, part)
        if not inside.any():
            return self._load_global(machine, address, mask, part)
        return np.where(
            shared,
            self._load_shared(machine, address - SHARED_WINDOW, inside, part),
            self._load_global(machine, address, outside, part),
        )

    def _load_shared(self, machine: Machine, address: Array, mask: Mask, part: Part) -> Array:
        if part.matrices:
            price = priced(banks.ldmatrix, part.matrices)
            return machine.shared.load(
                row_access(machine, self.at, address, mask, part.matrices, price)
            )
        price = priced(banks.shared_load, part.width)
        return machine.shared.load(
            shared_access(machine, self.at, address, mask, part.width, price)
        )

    def _load_global(self, machine: Machine, address: Array, mask: Mask, part: Part) -> Array:
        return machine.memory.load(global_access(machine, self.at, address, mask, part.width))

    def _store(self, machine: Machine, mask: Mask, part: Part, value: Array) -> None:
        address = self._lanes(machine, part)
        inside = outside = np.ones((1, 1, 1), bool)
        if self.space is None:
            _, inside, outside = _sides(machine, address, mask)
            base = SHARED_WINDOW
        else:
            inside, outside = inside & (self.space == "shared"), inside & (self.space == "global")
            base = 0
        if inside.any():
            price = priced(banks.shared_store, part.width)
            on = mask if not outside.any() else inside
            access = shared_access(machine, self.at, address - base, on, part.width, price)
            machine.shared.store(access, value)
        if outside.any():
            on = mask if not inside.any() else outside
            reached = global_access(machine, self.at, address, on, part.width)
            machine.memory.store(reached, value)


def _inverse(pieces: tuple[Part, ...]) -> Array:
    """Where each element of the matrix is among those that the parts load, one after another."""
    cells = np.concatenate([part.cells.reshape(-1) for part in pieces])
    places = np.empty(cells.size, np.intp)
    places[cells] = np.arange(cells.size)
    return places


def _sides(machine: Machine, address: Array, mask: Mask) -> tuple[Array, Array, Array]:
    """Which generic addresses are shared memory's; the active lanes there and elsewhere."""
    shared: Array = (address >= SHARED_WINDOW) & (address < GLOBAL_BASE)
    on = np.ones((1, 1, 1), bool) if mask is None else mask
    return shared, shared & on, ~shared & on
