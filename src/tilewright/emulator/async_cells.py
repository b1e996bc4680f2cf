"""Copies and wgmma against what threads did to the same cells of shared memory.

Threads go through the generic proxy, copies through the asynchronous one: what a thread wrote must
lie before the copy *and* before a fence.proxy.async on the way to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.async_shadow import BY_COPY, UNIT, Issuers
from tilewright.emulator.shadow import NOBODY, Cells

if TYPE_CHECKING:
    from tilewright.emulator.hazards import Hazards

_NO_FENCE = (
    "{} shared memory that threads wrote, with no fence.proxy.async between the two: copies and "
    "wgmma may see what was there before (the writing threads fence, then all meet at a barrier)"
)


class AsyncCells:
    """Of one chunk: looks into its shadow of cells."""

    def __init__(self, hazards: Hazards) -> None:
        self._hazards = hazards

    def overwrite(
        self, at: int, who: Issuers, span: tuple[int, int], through_copies: bool = True
    ) -> None:
        """A copy may write from now on: threads must be done with these cells."""
        hazards, table, who = self._hazards, self._hazards.table, self._told_apart(who)
        written, read = self._part(table.written, who, span), self._part(table.read, who, span)
        used = np.maximum(written, read) >= 0
        if not used.any():
            return
        cells = self._cells(used, who, span)
        for conflict in (table.check_write(cells, at), table.check_overwrite(cells, at)):
            if conflict is not None:
                hazards.race(at, cells, conflict, "writes")
        if through_copies:
            self._check_fence(at, cells, "writes")
        table.forget_reads(cells.index)

    def copied(self, rows: Array, span: tuple[int, int]) -> None:
        """The copy has ended: now these cells are written, in an order looked at elsewhere."""
        table, (lo, hi) = self._hazards.table.written, self._span(span)
        by_row = table.reshape(self._hazards.rows, -1)
        if self._hazards.one_row or len(rows) == len(by_row):
            by_row[:, lo:hi] = BY_COPY
        else:
            by_row[rows, lo:hi] = BY_COPY

    def read(self, at: int, who: Issuers, span: tuple[int, int], needed: Array | None) -> None:
        """A copy or wgmma may read from now on: what threads wrote must be ready for it."""
        hazards, who = self._hazards, self._told_apart(who)
        written = self._part(hazards.table.written, who, span)
        if needed is not None and (unset := written == NOBODY).any():
            unset = unset & self._pieces(needed, span)
            cells = self._cells(unset, who, span)
            if len(cells.index):
                every = np.ones(len(cells.index), bool)
                what = "reads shared memory that nobody wrote"
                hazards.cell("uninitialised", at, cells, every, what)
        if not (by_threads := written >= 0).any():
            return
        cells = self._cells(by_threads, who, span)
        conflict = hazards.table.check_read(cells, at)
        if conflict is not None:
            hazards.race(at, cells, conflict, "reads")
        self._check_fence(at, cells, "reads")

    def _check_fence(self, at: int, cells: Cells, does: str) -> None:
        """Only what is ordered can lack a fence alone."""
        column, period, by_thread = self._hazards.table.writers(cells.index)
        one = Issuers(cells.block, cells.warp, cells.lane, cells.block)
        happened, fenced = self._hazards.beside.visible(one, column, period)
        bad = by_thread & happened & ~fenced
        if bad.any():
            self._hazards.cell("proxy-fence", at, cells, bad, _NO_FENCE.format(does))

    def _told_apart(self, who: Issuers) -> Issuers:
        """Those of one block where its cells stand for all."""
        return who.of(who.rows == who.rows[0]) if self._hazards.one_row else who

    def _pieces(self, address: Array, span: tuple[int, int]) -> Array:
        """Which cells of a span belong to pieces of 16 bytes at these addresses."""
        size, (lo, hi) = self._hazards.cell_bytes, self._span(span)
        found = np.zeros(hi - lo, bool)
        inside = address[(address >= span[0]) & (address < span[1])].reshape(-1)
        found[(inside[:, None] // size + np.arange(UNIT // size)).reshape(-1) - lo] = True
        return found

    def _span(self, span: tuple[int, int]) -> tuple[int, int]:
        size = self._hazards.cell_bytes
        return span[0] // size, -(-span[1] // size)

    def _part(self, table: Array, who: Issuers, span: tuple[int, int]) -> Array:
        """[m, cells]; the same row again and again where it stands for all blocks."""
        (lo, hi), by_row = self._span(span), table.reshape(self._hazards.rows, -1)
        if self._hazards.one_row:
            return np.broadcast_to(by_row[:, lo:hi], (len(who.rows), hi - lo))
        return by_row[who.rows, lo:hi]

    def _cells(self, used: Array, who: Issuers, span: tuple[int, int]) -> Cells:
        """Those of [m, cells] that are `used`, touched by the issuers."""
        hazards, (lo, _) = self._hazards, self._span(span)
        item, cell = np.nonzero(used)
        row = 0 if hazards.one_row else who.rows[item]
        per_row = len(hazards.table.written) // hazards.rows
        block, warp = who.block[item], who.warp[item]
        index = row * per_row + lo + cell
        column = hazards.clocks.column(block, warp)
        return Cells(index, block, warp, who.lane[item], column)
