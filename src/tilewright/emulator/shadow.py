"""Shadow of a memory: who touched each cell last, and whether a new access is ordered after it.

A cell is 4 bytes until a narrower access comes; then all cells are split. One record is an int64:

    period << 44 | turn << 32 | strong << 31 | instruction << 16 | warp << 6 | lane

and NOBODY is −1, whose period −1 lies before everything. The warp counts within the cluster.
Records of reads may hold MANY_WARPS for it, and MANY for the lane. `strong` marks atomics and
volatile accesses, which do not race with each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.clocks import INITED, MANY, MANY_WARPS, MOST_TURNS, Clocks
from tilewright.emulator.traits import Traits

NOBODY = -1
_PERIOD, _TURN, _AT, _WHO = 44, 32, 16, 6  # how far up each part of a record lies
_STRONG = 1 << 31
_AT_BITS = 15
_ANY_WARP = MANY_WARPS << _WHO
_THREAD = _ANY_WARP | MANY
_MOST_INSTRUCTIONS = (1 << _AT_BITS) - 1
_READ_AFTER_WRITE, _WRITE_AFTER_READ, _WRITE_AFTER_WRITE = "read", "overwrite", "write"


@dataclass(slots=True)
class Cells:
    """Cells that an access touches, flat: index into the table, and who touches it."""

    index: Array
    block: Array  # within the chunk
    warp: Array
    lane: Array
    who: Array  # the warp among those of its cluster
    met: bool | None = None  # whether two lanes touch one cell, once that is known


@dataclass(frozen=True, slots=True)
class Conflict:
    """A cell touched without order: place in `Cells`, and the record that was found there.

    `warp` counts within the cluster for shared memory, within the block for arrays.
    """

    place: int
    at: int  # the instruction that touched it before
    warp: int
    lane: int
    wrote: bool
    block: int | None = None  # of the array's shadow: the other's block


class Table:
    """Last write and last read of every cell.

    While every barrier is one of all warps, a read that several warps made stands in one record.
    As soon as some may be ordered without others, the last read of each warp is kept.
    """

    def __init__(self, cells: int, clocks: Clocks, traits: Traits) -> None:
        self.clocks, self.traits = clocks, traits
        self.written = np.full(cells, NOBODY, np.int64)
        self.read = np.full(cells, NOBODY, np.int64)
        # [cells, warps of the cluster]: (period << 15 | instruction) + 1, 0 for none
        self.reads: Array | None = None

    def split(self, parts: int) -> None:
        """Every cell becomes so many."""
        self.written = np.repeat(self.written, parts)
        self.read = np.repeat(self.read, parts)
        self.reads = None if self.reads is None else np.repeat(self.reads, parts, 0)

    def repeat(self, blocks: int) -> None:
        """The same cells for each of so many blocks."""
        self.written = np.tile(self.written, blocks)
        self.read = np.tile(self.read, blocks)
        self.reads = None if self.reads is None else np.tile(self.reads, (blocks, 1))

    def on_read(self, cells: Cells, at: int) -> Conflict | None:
        """Records reads; the first that is not ordered after the cell's last write, if any."""
        found = self._unordered(self.written[cells.index], cells, at, _READ_AFTER_WRITE)
        record = self._record(cells, at, reads=True)
        reads = self._reads_of_warps()
        mixed = self._mixed(self.read[cells.index], record)
        self.read[cells.index] = mixed
        self._merge(cells.index, mixed)
        if reads is not None:
            short = min(at, _MOST_INSTRUCTIONS)
            reads[cells.index, cells.who] = (record >> _PERIOD << _AT_BITS | short) + 1
        return self._conflict(found, self.written, cells, wrote=True)

    def on_write(
        self, cells: Cells, at: int, unchanged: Callable[[Array], Array] | None = None
    ) -> Conflict | None:
        """Records writes; the first not ordered after the cell's last write or read, if any.

        `unchanged` says of places in `cells` which of them keep their value: one instruction may
        write the same value in several warps, with nothing between them.
        """
        found = self._unordered(self.written[cells.index], cells, at, _WRITE_AFTER_WRITE)
        if found.size and unchanged is not None:
            by = self.written[cells.index[found]] >> _AT & _MOST_INSTRUCTIONS
            found = found[(by != min(at, _MOST_INSTRUCTIONS)) | ~unchanged(found)]
        conflict = self._conflict(found, self.written, cells, wrote=True)
        if conflict is None:
            conflict = self.check_write(cells, at)
        self.written[cells.index] = self._record(cells, at)
        return conflict

    def check_write(self, cells: Cells, at: int) -> Conflict | None:
        """Like on_write, for a write that will come at any time from now on: nothing recorded."""
        record = self.read[cells.index]
        found = self._unordered(record, cells, at, _WRITE_AFTER_READ)
        reads = self._reads_of_warps()
        if reads is None:
            return self._conflict(found, self.read, cells, wrote=False)
        late = self._late(reads[cells.index], cells, at)
        if late is not None:
            return late
        own = found[record[found] >> _WHO & MANY_WARPS == cells.who[found]]
        return self._conflict(own, self.read, cells, wrote=False)

    def check_read(self, cells: Cells, at: int) -> Conflict | None:
        """Like on_read, for a read beside the warps: nothing recorded."""
        found = self._unordered(self.written[cells.index], cells, at, _READ_AFTER_WRITE)
        return self._conflict(found, self.written, cells, wrote=True)

    def check_overwrite(self, cells: Cells, at: int) -> Conflict | None:
        """The first last write that is not ordered before a write to come."""
        found = self._unordered(self.written[cells.index], cells, at, _WRITE_AFTER_WRITE)
        return self._conflict(found, self.written, cells, wrote=True)

    def forget_reads(self, index: Array) -> None:
        """What read these cells lies before what comes, or was reported."""
        self.read[index] = NOBODY
        if self.reads is not None:
            self.reads[index] = 0

    def writers(self, index: Array) -> tuple[Array, Array, Array]:
        """Of each cell the warp that wrote it last, its period, and whether a thread did."""
        record = self.written[index]
        return record >> _WHO & MANY_WARPS, record >> _PERIOD, record >= 0

    # --- the last read of each warp -----------------------------------------------------

    def _reads_of_warps(self) -> Array | None:
        """The table, begun when it is needed; what was read before counts for all that may have."""
        if self.reads is None and not (self.clocks.even and not self.traits.uneven):
            self.reads = np.zeros((len(self.read), self.clocks.who), np.int64)
            there = np.flatnonzero(self.read != NOBODY)
            record = self.read[there]
            who = record >> _WHO & MANY_WARPS
            known = record >> _PERIOD << _AT_BITS | record >> _AT & _MOST_INSTRUCTIONS
            mine = (who[:, None] == np.arange(self.clocks.who)) | (who == MANY_WARPS)[:, None]
            self.reads[there] = np.where(mine, known[:, None] + 1, 0)
        return self.reads

    def _late(self, reads: Array, cells: Cells, at: int) -> Conflict | None:
        """The first read of another warp that is not ordered before a write by instruction `at`."""
        if not reads.any():
            return None
        reads = reads - 1
        late = self.clocks.late(cells.block, cells.warp, reads >> _AT_BITS)
        if self.traits.strong[at]:
            by = np.minimum(reads & _MOST_INSTRUCTIONS, len(self.traits.strong) - 1)
            late &= ~np.asarray(self.traits.strong)[by]
        if not late.any():
            return None
        place, warp = (int(i) for i in np.argwhere(late)[0])
        return Conflict(place, int(reads[place, warp]) & _MOST_INSTRUCTIONS, warp, 0, False)

    # --- records ------------------------------------------------------------------------

    def _record(self, cells: Cells, at: int, reads: bool = False) -> Array:
        strong = self.traits.strong[at]
        period, turn = self.clocks.now(cells.block, cells.warp, reads)
        fixed = min(at, _MOST_INSTRUCTIONS) << _AT | (_STRONG if strong else 0)
        turn = np.minimum(turn, MOST_TURNS)
        record: Array = period << _PERIOD | turn << _TURN | cells.who << _WHO | cells.lane | fixed
        return record

    def _mixed(self, old: Array, new: Array) -> Array:
        """New records of reads, which keep that others of the same period read the cell too."""
        same = (old >> _PERIOD) == (new >> _PERIOD)
        if not same.any():
            return new
        differs = old ^ new
        other_warp = same & (differs & _ANY_WARP != 0) & (self.reads is None)
        same_turn = differs >> _TURN & MOST_TURNS == 0  # else ordered by a sync
        other_lane = same & same_turn & (differs & MANY != 0)
        if self.reads is not None:
            other_lane &= differs & _ANY_WARP == 0
        return new | np.where(other_warp, _THREAD, np.where(other_lane, MANY, 0))

    def _merge(self, index: Array, record: Array) -> None:
        """Several lanes read one cell in one instruction."""
        last = self.read[index]
        differs = last != record
        if differs.any():
            other = (last ^ record) & _ANY_WARP != 0
            if self.reads is not None:
                differs &= ~other
            where, ours = index[differs], (last | record)[differs] & ~_THREAD
            other_warp = other[differs]
            kept = last[differs] & _THREAD
            self.read[where] = ours | np.where(other_warp, _THREAD, kept | MANY)

    # --- order --------------------------------------------------------------------------

    def _unordered(self, record: Array, cells: Cells, at: int, pair: str) -> Array:
        """Places in `cells` whose record is neither the same thread's nor ordered before now."""
        clocks = self.clocks
        period = record >> _PERIOD
        if clocks.even:
            suspects = np.flatnonzero(period >= clocks.period[0, 0])
        else:
            suspects = np.flatnonzero(record != NOBODY)
        if not suspects.size:
            return suspects
        record, period = record[suspects], period[suspects]
        block, warp, lane = (part[suspects] for part in (cells.block, cells.warp, cells.lane))
        mine, who, whose = cells.who[suspects], record >> _WHO & MANY_WARPS, record & MANY
        _, turn = clocks.now(block, warp, reads=pair == _WRITE_AFTER_READ)
        earlier_turn = (record >> _TURN & MOST_TURNS) < np.minimum(turn, MOST_TURNS)
        ordered = clocks.before(block, warp, who, period)
        same_warp = (whose == lane) | earlier_turn | self.traits.together[at]
        ordered |= (who == mine) & same_warp
        if self.traits.strong[at]:
            ordered |= (record & _STRONG != 0) & ~self._volatile(record, who == mine, at, pair)
            if clocks.knows_copies:  # an mbarrier.init has a fence of its own
                inited = clocks.before(block, warp, who, period, INITED)
                ordered |= self._initialised(record) & inited
        return suspects[~ordered]

    def _initialised(self, record: Array) -> Array:
        """Which records are those of mbarrier.init."""
        at = np.minimum(record >> _AT & _MOST_INSTRUCTIONS, len(self.traits.inits) - 1)
        found: Array = self.traits.inits[at]
        return found

    def _volatile(self, record: Array, same_warp: Array, at: int, pair: str) -> Array:
        """Volatile accesses of one warp's lanes that pass data: `volatile` orders no lanes.

        A lane that polls passes no data by that, and neither do two writes.
        """
        traits = self.traits
        if pair == _WRITE_AFTER_WRITE or not traits.volatile[at]:
            return np.zeros(len(record), bool)
        before = np.minimum(record >> _AT & _MOST_INSTRUCTIONS, len(traits.volatile) - 1)
        found: Array = same_warp & traits.volatile[before] & ~traits.polls[at]
        return found & ~traits.polls[before] if pair == _WRITE_AFTER_READ else found

    def _conflict(self, found: Array, table: Array, cells: Cells, wrote: bool) -> Conflict | None:
        if not found.size:
            return None
        others = found[table[cells.index[found]] >> _WHO & MANY_WARPS != cells.who[found]]
        place = int(others[0] if others.size else found[0])
        record = int(table[cells.index[place]])
        return Conflict(
            place,
            record >> _AT & _MOST_INSTRUCTIONS,
            record >> _WHO & MANY_WARPS,
            record & MANY,
            wrote,
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
