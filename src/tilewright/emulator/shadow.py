"""Shadow of a memory: who touched each cell last, and whether a new access is ordered after it.

A cell is 4 bytes until a narrower access comes; then all cells are split. One record is an int64:

    period << 40 | turn << 28 | strong << 27 | instruction << 12 | warp << 6 | lane

and NOBODY is −1, whose period −1 lies before everything. Records of reads may hold MANY for warp
or lane. `strong` marks atomics and volatile accesses, which do not race with each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.clocks import MANY, MOST_TURNS, Clocks
from tilewright.emulator.traits import Traits

NOBODY = -1
_STRONG = 1 << 27
_MOST_INSTRUCTIONS = (1 << 15) - 1
_READ_AFTER_WRITE, _WRITE_AFTER_READ, _WRITE_AFTER_WRITE = "read", "overwrite", "write"


@dataclass(slots=True)
class Cells:
    """Cells that an access touches, flat: index into the table, and who touches it."""

    index: Array
    block: Array  # within the chunk
    warp: Array
    lane: Array
    met: bool | None = None  # whether two lanes touch one cell, once that is known


@dataclass(frozen=True, slots=True)
class Conflict:
    """A cell touched without order: place in `Cells`, and the record that was found there."""

    place: int
    at: int  # the instruction that touched it before
    warp: int
    lane: int
    wrote: bool
    block: int | None = None  # of the array's shadow: the other's block


class Table:
    """Last write and last read of every cell."""

    def __init__(self, cells: int, clocks: Clocks, traits: Traits) -> None:
        self.clocks, self.traits = clocks, traits
        self.written = np.full(cells, NOBODY, np.int64)
        self.read = np.full(cells, NOBODY, np.int64)
        self.readers = np.full(cells, -1, np.int64)  # of MANY: bit w of warp w; all if not known

    def split(self, parts: int) -> None:
        """Every cell becomes so many."""
        self.written = np.repeat(self.written, parts)
        self.read = np.repeat(self.read, parts)
        self.readers = np.repeat(self.readers, parts)

    def repeat(self, blocks: int) -> None:
        """The same cells for each of so many blocks."""
        self.written = np.tile(self.written, blocks)
        self.read = np.tile(self.read, blocks)
        self.readers = np.tile(self.readers, blocks)

    def on_read(self, cells: Cells, at: int) -> Conflict | None:
        """Records reads; the first that is not ordered after the cell's last write, if any."""
        found = self._unordered(self.written[cells.index], cells, at, _READ_AFTER_WRITE)
        record = self._record(cells, at, reads=True)
        old = self.read[cells.index]
        mixed = self._mixed(old, record)
        self.read[cells.index] = mixed
        self._merge(cells.index, mixed)
        if not self.clocks.even:
            self._note_readers(cells, old, record)
        return self._conflict(found, self.written, cells, wrote=True)

    def on_write(self, cells: Cells, at: int) -> Conflict | None:
        """Records writes; the first not ordered after the cell's last write or read, if any."""
        found = self._unordered(self.written[cells.index], cells, at, _WRITE_AFTER_WRITE)
        conflict = self._conflict(found, self.written, cells, wrote=True)
        if conflict is None:
            conflict = self.check_write(cells, at)
        self.written[cells.index] = self._record(cells, at)
        return conflict

    def check_write(self, cells: Cells, at: int) -> Conflict | None:
        """Like on_write, for a write that will come at any time from now on: nothing recorded."""
        found = self._unordered(self.read[cells.index], cells, at, _WRITE_AFTER_READ)
        return self._conflict(found, self.read, cells, wrote=False)

    # --- records ------------------------------------------------------------------------

    def _record(self, cells: Cells, at: int, reads: bool = False) -> Array:
        strong = self.traits.strong[at]
        period, turn = self.clocks.now(cells.block, cells.warp, reads)
        fixed = min(at, _MOST_INSTRUCTIONS) << 12 | (_STRONG if strong else 0)
        turn = np.minimum(turn, MOST_TURNS)
        record: Array = period << 40 | turn << 28 | cells.warp << 6 | cells.lane | fixed
        return record

    def _mixed(self, old: Array, new: Array) -> Array:
        """New records of reads, which keep that others of the same period read the cell too."""
        same = (old >> 40) == (new >> 40)
        if not same.any():
            return new
        other_warp = same & ((old ^ new) & (63 << 6) != 0)
        same_turn = (old >> 28 & MOST_TURNS) == (new >> 28 & MOST_TURNS)  # else ordered by a sync
        other_lane = same & same_turn & ((old ^ new) & 63 != 0)
        return new | np.where(other_warp, 63 << 6 | 63, np.where(other_lane, 63, 0))

    def _merge(self, index: Array, record: Array) -> None:
        """Several lanes read one cell in one instruction."""
        last = self.read[index]
        differs = last != record
        if differs.any():
            where, ours = index[differs], (last | record)[differs] & ~0xFFF
            other_warp = (last ^ record)[differs] & (63 << 6) != 0
            kept = last[differs] & 0xFFF
            self.read[where] = ours | np.where(other_warp, 0xFFF, kept | 63)

    def _note_readers(self, cells: Cells, old: Array, record: Array) -> None:
        """Which warps read the cells that several read, where not all know the same."""
        many = self.read[cells.index] >> 6 & 63 == MANY
        if not many.any():
            return
        index, warp, old = cells.index[many], cells.warp[many], old[many]
        who = old >> 6 & 63
        before = np.where(who == MANY, self.readers[index], np.int64(1) << np.minimum(who, 62))
        self.readers[index] = np.where(old >> 40 == record[many] >> 40, before, 0)
        for one in range(self.clocks.warps):
            self.readers[index[warp == one]] |= 1 << one

    # --- order --------------------------------------------------------------------------

    def _unordered(self, record: Array, cells: Cells, at: int, pair: str) -> Array:
        """Places in `cells` whose record is neither the same thread's nor ordered before now."""
        clocks = self.clocks
        period = record >> 40
        if clocks.even:
            suspects = np.flatnonzero(period >= clocks.period[0, 0])
        else:
            suspects = np.flatnonzero(record != NOBODY)
        if not suspects.size:
            return suspects
        record, period = record[suspects], period[suspects]
        block, warp, lane = (part[suspects] for part in (cells.block, cells.warp, cells.lane))
        who, whose = record >> 6 & 63, record & 63
        _, turn = clocks.now(block, warp, reads=pair == _WRITE_AFTER_READ)
        earlier_turn = (record >> 28 & MOST_TURNS) < np.minimum(turn, MOST_TURNS)
        ordered = clocks.before(block, warp, who, period)
        if pair == _WRITE_AFTER_READ and (many := who == MANY).any():
            readers = self.readers[cells.index[suspects[many]]]
            ordered[many] = clocks.all_before(block[many], warp[many], readers, period[many])
        same_warp = (whose == lane) | earlier_turn | self.traits.together[at]
        ordered |= (who == warp) & same_warp
        if self.traits.strong[at]:
            ordered |= (record & _STRONG != 0) & ~self._volatile(record, who == warp, at, pair)
        return suspects[~ordered]

    def _volatile(self, record: Array, same_warp: Array, at: int, pair: str) -> Array:
        """Volatile accesses of one warp's lanes that pass data: `volatile` orders no lanes.

        A lane that polls passes no data by that, and neither do two writes.
        """
        traits = self.traits
        if pair == _WRITE_AFTER_WRITE or not traits.volatile[at]:
            return np.zeros(len(record), bool)
        before = np.minimum(record >> 12 & _MOST_INSTRUCTIONS, len(traits.volatile) - 1)
        found: Array = same_warp & traits.volatile[before] & ~traits.polls[at]
        return found & ~traits.polls[before] if pair == _WRITE_AFTER_READ else found

    def _conflict(self, found: Array, table: Array, cells: Cells, wrote: bool) -> Conflict | None:
        if not found.size:
            return None
        place = int(found[0])
        record = int(table[cells.index[place]])
        return Conflict(
            place, record >> 12 & _MOST_INSTRUCTIONS, record >> 6 & 63, record & 63, wrote
        )


def overlaps(index: Array) -> bool:
    """Whether two lanes touch one cell."""
    ordered = np.sort(index)
    return bool((ordered[1:] == ordered[:-1]).any())


def cells_of(
    address: Array, active: Array | None, width: int, size: int
) -> tuple[Array, Array, Array, Array]:
    """Cell, block, warp and lane of each part of an access [b, W, L], flat."""
    parts = max(1, width // size)
    shape = (*address.shape, parts)
    cell = np.broadcast_to((address // size)[..., None] + np.arange(parts), shape)
    grid = np.ogrid[tuple(slice(extent) for extent in shape)]
    block, warp, lane = (np.broadcast_to(axis, shape) for axis in grid[:3])
    if active is None:
        return cell.reshape(-1), block.reshape(-1), warp.reshape(-1), lane.reshape(-1)
    on = np.broadcast_to(active[..., None], shape)
    return cell[on], block[on], warp[on], lane[on]
