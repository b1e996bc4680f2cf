"""Watching the accesses of a chunk: races, unset cells, overlaps, copies read too early.

The memories call in here for every access that is left after the checks of bounds; what a cell's
shadow says becomes a finding with both lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.async_cells import AsyncCells
from tilewright.emulator.async_shadow import UNIT, AsyncShadow, Issuers
from tilewright.emulator.clocks import MANY, MANY_WARPS, Clocks
from tilewright.emulator.flags import Flags
from tilewright.emulator.global_shadow import ArrayTable, Knowledge
from tilewright.emulator.shadow import NOBODY, Cells, Conflict, Table, cells_of, overlaps
from tilewright.emulator.traits import Traits

if TYPE_CHECKING:
    from tilewright.emulator.access import Access
    from tilewright.emulator.findings import Findings
    from tilewright.emulator.memory import Allocation

_WIDEST_CELL = 4


@dataclass(slots=True)
class ArrayShadows:
    """The shadows of a launch's arrays, which all chunks share; None for one nobody can write."""

    knowledge: Knowledge
    traits: Traits
    watched: set[int] | None = None  # places in the list of allocations; None = all
    tables: dict[int, tuple[int, ArrayTable]] = field(default_factory=dict)  # cell size, table

    def table(self, allocation: Allocation, width: int) -> tuple[int, ArrayTable] | None:
        """Cell size and table, made at the first access and split for narrower ones."""
        if self.watched is not None and allocation.number not in self.watched:
            return None
        size = min(width, _WIDEST_CELL)
        known = self.tables.get(allocation.number)
        if known is None:
            cells = -(-allocation.nbytes // size)
            known = self.tables[allocation.number] = size, ArrayTable(cells, self.knowledge)
        elif size < known[0]:
            known[1].split(known[0] // size)
            known = self.tables[allocation.number] = size, known[1]
        return known


class Hazards:
    """Of one chunk: its clocks, the shadow of its shared memory, and the arrays' shadows."""

    def __init__(
        self,
        blocks: int,
        warps: int,
        shared_bytes: int,
        findings: Findings,
        arrays: ArrayShadows,
        peers: int = 1,
    ) -> None:
        self.blocks, self.peers = blocks, peers
        self.clocks = Clocks(blocks, warps, peers, arrays.traits.copies)
        self.arrays = arrays
        self._findings = findings
        self.traits = arrays.traits
        self._flags = Flags(self.clocks, arrays.knowledge, self.traits)
        self.cell_bytes = _WIDEST_CELL
        # Of the table: one while all blocks do the same, which those of a cluster never do.
        self.rows = 1 if peers == 1 else blocks
        self._row = -(-shared_bytes // 16) * 16
        cells = self._row // self.cell_bytes * self.rows
        self.table = Table(cells, self.clocks, self.traits)
        self._flying = np.zeros(cells, bool)
        self.beside = AsyncShadow(self, AsyncCells(self), max(self._row, UNIT))

    @property
    def one_row(self) -> bool:
        """Whether the cells of one block stand for those of all."""
        return self.rows == 1 and self.blocks > 1

    # --- shared memory ------------------------------------------------------------------

    def shared_read(self, access: Access) -> None:
        cells = self._cells(access)
        self._beside(access, cells, write=False)
        self._flags.load(access, shared=True)
        self._check_set(access, cells, self._early(access, cells, "async-read"))
        conflict = self.table.on_read(cells, access.at)
        if conflict is not None:
            self.race(access.at, cells, conflict, "reads")

    def shared_write(self, access: Access, changes: Callable[[], Array] | None = None) -> None:
        """`changes` says which lanes [B, W, L] of a store give a new value to what they write."""
        cells = self._cells(access)
        self._beside(access, cells, write=True)
        early = self._early(access, cells, "race")
        if self.traits.updates[access.at]:
            self._check_set(access, cells, early)
        if self.traits.atomic[access.at]:
            self._flags.exchange(access, shared=True)
        else:
            self._flags.store(access, shared=True)
        unchanged = None
        if changes is not None:
            unchanged = partial(self._unchanged, cells, changes)
        conflict = self.table.on_write(cells, access.at, unchanged)
        if conflict is not None:
            self.race(access.at, cells, conflict, "writes")

    def _unchanged(self, cells: Cells, changes: Callable[[], Array], places: Array) -> Array:
        new = changes()
        if self.one_row:  # the first block stands for all
            new = np.logical_or.reduce(new, axis=0, keepdims=True)
        block = cells.block[places] if new.shape[0] > 1 else np.zeros_like(places)
        found: Array = ~new[block, cells.warp[places], cells.lane[places]]
        return found

    def mbarrier(self, access: Access, wait: bool) -> None:
        """An mbarrier's word is looked at or changed, which races with init and plain accesses."""
        cells = self._cells(access)
        touch = self.table.on_read if wait else self.table.on_write
        conflict = touch(cells, access.at)
        if conflict is not None:
            self.race(access.at, cells, conflict, "reads" if wait else "writes")

    def _beside(self, access: Access, cells: Cells, write: bool) -> None:
        if self.beside.begun:
            row_cells = self._row // self.cell_bytes
            self.beside.touch(access.at, cells, self.cell_bytes, row_cells, write)

    def _early(self, access: Access, cells: Cells, kind: str) -> Array | None:
        """Which of the cells a copy still fills: a finding."""
        if not (self._flying.any() and (early := self._flying[cells.index]).any()):
            return None
        verb = "reads" if kind == "async-read" else "writes"
        what = f"{verb} shared memory that a cp.async still fills (wait for its group first)"
        self.cell(kind, access.at, cells, early, what)
        return early

    def _check_set(self, access: Access, cells: Cells, early: Array | None) -> None:
        if self.traits.padding[access.at]:
            return
        unset = self.table.written[cells.index] == NOBODY
        if early is not None:
            unset &= ~early
        if unset.any():
            what = f"{self._reads(access.at)} shared memory that nobody wrote"
            self.cell("uninitialised", access.at, cells, unset, what)

    def copy_starts(self, access: Access) -> None:
        """A cp.async may write from now on: whoever read these cells must be done with them."""
        cells = self._cells(access)
        conflict = self.table.check_write(cells, access.at)
        if conflict is not None:
            self.race(access.at, cells, conflict, "writes")
        self._flying[cells.index] = True

    def copy_lands(self, access: Access) -> None:
        """The copying lane has waited for it: now it is its write."""
        cells = self._cells(access)
        self._flying[cells.index] = False

    def overlap(self, access: Access, lost: Array, array: str | None = None) -> None:
        """Lanes [b, W, L] whose store another lane of the same step undid."""
        lane = tuple(int(i) for i in np.argwhere(lost)[0])
        address = int(np.broadcast_to(access.address, lost.shape)[lane])
        what = "stores where another lane stores another value at the same time"
        count = int(lost.sum()) * (self.blocks // lost.shape[0])
        self._findings.at_lane(
            "overlap", access.at, what, (lane[0], lane[1], lane[2]), address, array, None, count
        )

    def overlapping(self, access: Access) -> bool:
        """Whether lanes of one block meet in a cell."""
        cells = self._cells(access)
        if cells.met is None:
            cells.met = overlaps(cells.index)
        return cells.met

    def _cells(self, access: Access) -> Cells:
        if access.cells is not None and access.cells_rows == (self.rows, self.cell_bytes):
            return access.cells
        if access.width < self.cell_bytes:
            parts = self.cell_bytes // access.width
            self.table.split(parts)
            self._flying = np.repeat(self._flying, parts)
            self.cell_bytes = access.width
        address, active = _of_one(access.address), _of_one(access.active)
        alike = address.shape[0] == 1 and (active is None or active.shape[0] == 1)
        alike = alike and access.rows is None
        if not alike and self.rows == 1 and self.blocks > 1:
            self.table.repeat(self.blocks)
            self._flying = np.tile(self._flying, self.blocks)
            self.rows = self.blocks
        if self.rows > 1:
            full = (self.blocks, *address.shape[1:])
            address = np.broadcast_to(address, full)
            active = None if active is None else np.broadcast_to(active, full)
        cell, block, warp, lane = cells_of(address, active, access.width, self.cell_bytes)
        row = block if access.rows is None else access.rows[block, warp, lane]
        index, who = cell + row * (self._row // self.cell_bytes), self.clocks.column(block, warp)
        cells = Cells(index, block, warp, lane, who)
        if alike and active is None:
            access.cells, access.cells_rows = cells, (self.rows, self.cell_bytes)
        return cells

    # --- arrays -------------------------------------------------------------------------

    def array(self, allocation: Allocation, access: Access, on: Array | None, write: bool) -> None:
        """An access of the lanes `on` [b, W, L] to one array."""
        found = self.arrays.table(allocation, access.width)
        if found is None:
            return
        size, table = found
        address, active = access.address - allocation.base, on
        if address.shape[0] != self.blocks:  # the same address, but other threads
            address = np.broadcast_to(address, (self.blocks, *address.shape[1:]))
        if active is not None:
            active = np.broadcast_to(active, address.shape)
        cells = self._array_cells(address, active, access.width, size)
        self._array_touch(allocation, access.at, cells, table, write)

    def watches(self, allocation: Allocation) -> bool:
        """Whether anybody may write this array."""
        return self.arrays.watched is None or allocation.number in self.arrays.watched

    def array_copy(
        self, allocation: Allocation, at: int, where: Array, width: int, who: Issuers, write: bool
    ) -> None:
        """A bulk copy of elements of `width` bytes at these bytes of an array [k]."""
        found = self.arrays.table(allocation, width)
        if found is None:
            return
        size, table = found
        if width > size:
            where = (where[:, None] + np.arange(0, width, size)).reshape(-1)
            who = who.of(np.repeat(np.arange(len(who.block)), width // size))
        column = self.clocks.column(who.block, who.warp)
        cells = Cells(where // size, who.block, who.warp, who.lane, column)
        self._array_touch(allocation, at, cells, table, write)

    def _array_touch(
        self, allocation: Allocation, at: int, cells: Cells, table: ArrayTable, write: bool
    ) -> None:
        strong, ids = self.traits.strong[at], self._findings.ids
        reads = not write or self.traits.updates[at]
        if allocation.unset and reads and not self.traits.padding[at]:
            unset = table.written[cells.index] == NOBODY
            if unset.any():
                what = f"{self._reads(at)} an element that nobody wrote"
                self.cell("uninitialised", at, cells, unset, what, allocation)
        touch = table.on_write if write else table.on_read
        conflict = touch(cells, at, strong, self.clocks, ids)
        if conflict is not None:
            self.race(at, cells, conflict, "writes" if write else "reads", allocation)

    def _array_cells(self, address: Array, active: Array | None, width: int, size: int) -> Cells:
        cell, block, warp, lane = cells_of(address, active, width, size)
        return Cells(cell, block, warp, lane, self.clocks.column(block, warp))

    # --- flags --------------------------------------------------------------------------

    def release(self, access: Access) -> None:
        """A store to arrays may tell other warps and blocks something."""
        self._flags.ids = self._findings.ids
        self._flags.store(access, shared=False)

    def acquire(self, access: Access) -> None:
        """A load of arrays may learn what was told."""
        self._flags.ids = self._findings.ids
        self._flags.load(access, shared=False)

    def exchange(self, access: Access) -> None:
        """An atomic of arrays does both."""
        self._flags.ids = self._findings.ids
        self._flags.exchange(access, shared=False)

    def fence(self, mask: Mask) -> None:
        self.clocks.fence(mask)

    # --- findings -----------------------------------------------------------------------

    def _reads(self, at: int) -> str:
        return "updates" if self.traits.updates[at] else "reads"

    def cell(
        self,
        kind: str,
        at: int,
        cells: Cells,
        bad: Array,
        what: str,
        allocation: Allocation | None = None,
    ) -> None:
        place = int(np.flatnonzero(bad)[0])
        self._findings.at_lane(
            kind,
            at,
            what,
            (int(cells.block[place]), int(cells.warp[place]), int(cells.lane[place])),
            self._address(cells, place, allocation),
            allocation.name if allocation else None,
            None,
            int(bad.sum()),
        )

    def race(
        self,
        at: int,
        cells: Cells,
        conflict: Conflict,
        does: str,
        allocation: Allocation | None = None,
    ) -> None:
        place = conflict.place
        instructions = self.traits.instructions
        other = instructions[conflict.at] if conflict.at < len(instructions) else None
        block, warp = int(cells.block[place]), int(cells.warp[place])
        apart, who = self._other(conflict, block, warp, allocation is not None)
        did = "wrote" if conflict.wrote else "read"
        where = f" at {other.place.file}:{other.place.line}" if other else ""
        self._findings.at_lane(
            "race",
            at,
            f"{does} what {who} {did}{where}, with nothing that orders the two "
            f"({_REMEDIES[apart]})",
            (block, warp, int(cells.lane[place])),
            self._address(cells, place, allocation),
            allocation.name if allocation else None,
            other.place.line if other else None,
            1,
            apart,
        )

    def report_beside(
        self,
        kind: str,
        at: int,
        does: str,
        other: int,
        lane: tuple[int, int, int],
        address: int,
        count: int,
    ) -> None:
        """What a copy, a wgmma or a thread does to shared memory that another one is not done with.

        `other` is the instruction of that one, which `does` has a place for.
        """
        one = self.traits.instructions[other]
        what = does.format(f"{one.opcode.split('.shared')[0]} at {one.place.file}:{one.place.line}")
        what += ", with nothing that orders the two (a wait at its mbarrier or for its group would)"
        self._findings.at_lane(kind, at, what, lane, address, None, one.place.line, count)

    def _address(self, cells: Cells, place: int, allocation: Allocation | None) -> int:
        if allocation is not None:
            size = self.arrays.tables[allocation.number][0]
            return allocation.base + int(cells.index[place]) * size
        return int(cells.index[place]) % (self._row // self.cell_bytes) * self.cell_bytes

    def _other(self, conflict: Conflict, block: int, warp: int, in_array: bool) -> tuple[int, str]:
        """Who touched the cell before: how far from a thread of this block (by its row) and warp,
        and its name."""
        here = self._findings.block_id(block)
        other, number = conflict.block, conflict.warp
        if not in_array and self.peers > 1 and number != MANY_WARPS:
            rank, number = divmod(number, self.clocks.warps)
            other = self._findings.block_id(block - block % self.peers + rank)
        who = "several warps" if number == MANY_WARPS else f"warp {number}"
        if other is not None and other & 0xFFFF != here & 0xFFFF:
            return 2 if in_array else 3, f"{who} of block {other}"
        if number != warp:
            return 1, who
        return 0, "other lanes of this warp" if conflict.lane == MANY else f"lane {conflict.lane}"


def _of_one(rows: Any) -> Any:
    """The first block's row where all blocks have the same."""
    if rows is None or len(rows) == 1 or not bool((rows == rows[:1]).all()):
        return rows
    return rows[:1]


_REMEDIES = (  # by how far apart two threads are: lanes, warps, blocks, blocks of a cluster
    "__syncwarp() would",
    "__syncthreads() would",
    "blocks need an atomic, or a flag with fences",
    "barrier.cluster or an mbarrier of the cluster would",
)
