"""What asynchronous copies and wgmma read and write in shared memory, and who knows of it.

They work beside the warps, on whole boxes and tiles, so that shared memory is looked at in regions
here: runs of units, of 16 bytes as a rule, that one of them touched, for all blocks of a chunk. A
copy that signals an mbarrier has written when the phase ends, and who waited for that phase knows
it; what reads on behalf of a warp has read when the warp has waited for it.

`Hazards` asks here for each access of a thread, and gives its own shadow for the opposite question.
For wgmma: `ticket = hazards.beside.async_read(...)` where it is issued, and
`hazards.beside.read_over(ticket, warp)` in each warp that has waited for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.clocks import INITED, PROXIED
from tilewright.emulator.shadow import Cells

if TYPE_CHECKING:
    from tilewright.emulator.async_cells import AsyncCells
    from tilewright.emulator.hazards import Hazards

UNIT = 16  # bytes
_NARROW_UNIT = 4  # the same where lanes store beside the warps, st.async
BY_COPY = -2  # in the shadow of cells: a copy wrote it, and its order is looked at here
_PENDING = 1 << 60  # the period of a read that is not over


@dataclass(frozen=True, slots=True)
class Issuers:
    """Who does it: block of the chunk, warp, lane, and the rows whose memory it touches; [m]."""

    block: Array
    warp: Array
    lane: Array
    rows: Array

    def of(self, which: Array) -> Issuers:
        return Issuers(self.block[which], self.warp[which], self.lane[which], self.rows[which])


@dataclass(slots=True)
class _Read:
    """Reads of a region that end together: in each block the periods [B, columns] of the end."""

    period: Array
    at: Array  # [B]


@dataclass(slots=True)
class _Region:
    """Units lo to hi of the memory of each of B blocks."""

    lo: int
    hi: int
    flying: Array  # copies on their way here [B]
    column: Array  # the agent that wrote it last [B], -1 for none
    phase: Array  # and when
    wrote: Array  # and the instruction that began to write last
    reads: dict[tuple[int, ...], _Read] = field(default_factory=dict)
    used: bool = False

    def part(self, lo: int, hi: int) -> _Region:
        flying, column = self.flying.copy(), self.column.copy()
        phase, wrote = self.phase.copy(), self.wrote.copy()
        reads = {who: _Read(it.period.copy(), it.at.copy()) for who, it in self.reads.items()}
        return _Region(lo, hi, flying, column, phase, wrote, reads, self.used)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A read that goes on: where, in which rows, and by which columns it may end."""

    spans: tuple[tuple[int, int], ...]  # in units
    rows: Array  # [m]
    groups: tuple[tuple[tuple[int, ...], Array], ...]  # columns, and which of the rows they are of


class AsyncShadow:
    """Of one chunk."""

    def __init__(self, hazards: Hazards, cells: AsyncCells, row_bytes: int) -> None:
        self._hazards, self._cells, self._clocks = hazards, cells, hazards.clocks
        blocks = hazards.blocks
        zero = np.zeros(blocks, np.int64)
        self._unit = _NARROW_UNIT if hazards.traits.stores_beside else UNIT
        units = row_bytes // self._unit
        first = _Region(0, units, zero, zero - 1, zero.copy(), zero.copy())
        self._regions = [first]
        self._firsts = [0]
        self._of_unit = np.zeros(units, np.int32)
        self.begun = False

    # --- copies and wgmma ---------------------------------------------------------------

    def writes(
        self, at: int, who: Issuers, span: tuple[int, int], through_copies: bool = True
    ) -> None:
        """A copy may write these bytes from now on: others must be done with them.

        It goes `through_copies`, or else through the generic proxy; atomics may meet each other.
        """
        atomic = np.asarray(self._hazards.traits.atomic)
        for region in self._parts(span):
            known = self._seen(who)
            late = self._unseen_write(region, who.rows, known)
            if atomic[at]:
                late &= ~atomic[region.wrote[who.rows]]
            self._report(at, who, late, region, region.wrote, "writes what {} wrote")
            for columns, read in region.reads.items():
                late = self._unfinished(read, columns, who, known)
                self._report(at, who, late, region, read.at, "writes what {} still reads")
            np.add.at(region.flying, who.rows, 1)
            region.wrote[who.rows] = at
            region.used = True
        self._cells.overwrite(at, who, span, through_copies)

    def written(self, rows: Array, columns: Array, phases: Array, span: tuple[int, int]) -> None:
        """The copy to these rows has ended, in a phase of its mbarrier (columns -1: unknown)."""
        for region in self._parts(span):
            np.add.at(region.flying, rows, -1)
            region.column[rows] = columns
            region.phase[rows] = phases
        self._cells.copied(rows, span)

    def async_read(
        self,
        at: int,
        who: Issuers,
        spans: tuple[tuple[int, int], ...],
        columns: tuple[tuple[int, ...], ...] | None = None,
        needed: Array | None = None,
    ) -> Ticket:
        """The asynchronous proxy reads bytes `spans` (from, to) of the rows of `who` from now on.

        `who` are the warps that issue it, all of which must know what was written there; a row
        may come again with other warps. `columns` says for each by which warps (`Clocks.column`)
        or agents the read may be known to be over; of several, one is enough: a wgmma names the
        four warps of its warpgroup. The default is the issuing warp.
        `needed` are the addresses of pieces of 16 bytes whose values count: there memory that
        nobody wrote is reported.
        Cost: some 20 µs a region; give wgmma's operands as whole rows of 128 bytes, so that the
        slices of a swizzled tile stay one region.
        """
        if columns is None:
            own = self._clocks.column(who.block, who.warp)
            columns = tuple((one,) for one in own.tolist())
        groups = _alike(columns)
        end = self._unit * len(
            self._of_unit
        )  # what lies beyond is no memory, and reported elsewhere
        spans = tuple((first, min(last, end)) for first, last in spans if first < end)
        for span in spans:
            for region in self._parts(span):
                known = self._seen(who)
                late = self._unseen_write(region, who.rows, known)
                self._report(at, who, late, region, region.wrote, "reads what {} wrote")
                region.used = True
                for names, places in groups:
                    read = self._read_of(region, names)
                    read.period[who.rows[places]] = _PENDING
                    read.at[who.rows[places]] = at
            self._cells.read(at, who, span, needed)
        return Ticket(tuple(self._units(span) for span in spans), who.rows, groups)

    def read_over(self, ticket: Ticket, column: Array | int, period: Array | None = None) -> None:
        """The read is over for the warp (or agent) of this column, at this period or now.

        `column` and `period` are numbers, or have one for each row of the ticket; a row whose read
        does not end by that column is left as it is.
        """
        columns = np.broadcast_to(np.asarray(column), ticket.rows.shape)
        for names, places in ticket.groups:
            for index, name in enumerate(names):
                here = places[columns[places] == name]
                if not here.size:
                    continue
                rows = ticket.rows[here]
                now = self._now(rows, name) if period is None else period[here]
                for lo, hi in ticket.spans:
                    for region in self._regions_of(lo, hi):
                        if names in region.reads:
                            region.reads[names].period[rows, index] = now

    # --- threads ------------------------------------------------------------------------

    def touch(self, at: int, cells: Cells, size: int, row_cells: int, write: bool) -> None:
        """An access of threads, looked at for all blocks it stands for."""
        unit = cells.index % row_cells * size // self._unit
        regions = self._of_unit[unit]
        for number in np.unique(regions).tolist():
            region = self._regions[number]
            if region.used:
                self._touch(region, at, cells, np.flatnonzero(regions == number), row_cells, write)

    def _touch(
        self, region: _Region, at: int, cells: Cells, here: Array, row_cells: int, write: bool
    ) -> None:
        block, warp = cells.block[here], cells.warp[here]
        row = cells.index[here] // row_cells
        key = (block * 64 + warp) * self._hazards.blocks + row
        _, first = np.unique(key, return_index=True)
        block, warp, row, lane = block[first], warp[first], row[first], cells.lane[here][first]
        if self._hazards.one_row:  # the first block stands for all
            count, blocks = len(block), np.arange(self._hazards.blocks)
            block = row = np.repeat(blocks, count)
            warp, lane = np.tile(warp, len(blocks)), np.tile(lane, len(blocks))
        who = Issuers(block, warp, lane, row)
        known = self._seen(who)
        verb = "writes" if write else "reads"
        flying = region.flying[row] > 0
        kind = "race" if write else "async-read"
        text = f"{verb} shared memory that {{}} still fills"
        self._report(at, who, flying, region, region.wrote, text, kind)
        late = self._unseen_write(region, row, known) & ~flying
        self._report(at, who, late, region, region.wrote, f"{verb} what {{}} wrote")
        if write:
            for columns, read in region.reads.items():
                late = self._unfinished(read, columns, who, known)
                self._report(at, who, late, region, read.at, "writes what {} still reads")

    # --- order --------------------------------------------------------------------------

    def _seen(self, who: Issuers) -> Array:
        """What each of them knows [m, N]."""
        known: Array = self._clocks.seen[who.block, who.warp]
        return known

    def _unseen_write(self, region: _Region, rows: Array, known: Array) -> Array:
        column, flying = region.column[rows], region.flying[rows] > 0
        seen = known[np.arange(len(rows)), column]
        late: Array = flying | ((column >= 0) & (region.phase[rows] >= seen))
        return late

    def _unfinished(
        self, read: _Read, columns: tuple[int, ...], who: Issuers, known: Array
    ) -> Array:
        """Of readers of which one is enough: those of whom none is known to be done."""
        period = read.period[who.rows]
        own = self._clocks.column(who.block, who.warp)[:, None] == np.array(columns)
        done = (period < known[:, list(columns)]) | (own & (period < _PENDING))
        found: Array = (period >= 0).any(1) & ~done.any(1)
        return found

    def _now(self, rows: Array, column: int) -> Array:
        """The period of a warp of the clusters that these rows belong to."""
        rank, warp = divmod(column, self._clocks.warps)
        periods: Array = self._clocks.period[rows - rows % self._clocks.peers + rank, warp]
        return periods

    def _read_of(self, region: _Region, columns: tuple[int, ...]) -> _Read:
        if columns not in region.reads:
            blocks = self._hazards.blocks
            period = np.full((blocks, len(columns)), -1, np.int64)
            region.reads[columns] = _Read(period, np.zeros(blocks, np.int64))
        return region.reads[columns]

    def visible(self, who: Issuers, column: Array, period: Array) -> tuple[Array, Array]:
        """Of what warps of these columns did then: whether it lies before now in those of `who`,
        and whether a fence made it known to copies on the way."""
        happened = self._clocks.before(who.block, who.warp, column, period)
        happened |= column == self._clocks.column(who.block, who.warp)
        return happened, self._fenced(who, column, period, PROXIED)

    def inited(self, who: Issuers, column: Array, period: Array) -> Array:
        """The same of mbarrier.init and its own fence."""
        return self._fenced(who, column, period, INITED)

    def _fenced(self, who: Issuers, column: Array, period: Array, section: int) -> Array:
        if not self._clocks.knows_copies:
            return np.zeros(len(column), bool)
        return self._clocks.before(who.block, who.warp, column, period, section)

    # --- regions ------------------------------------------------------------------------

    def _parts(self, span: tuple[int, int]) -> list[_Region]:
        self.begun = True
        lo, hi = self._units(span)
        for edge in (lo, hi):
            self._cut(edge)
        return list(self._regions_of(lo, hi))

    def _regions_of(self, lo: int, hi: int) -> Iterator[_Region]:
        for number in range(bisect_right(self._firsts, lo) - 1, len(self._regions)):
            region = self._regions[number]
            if region.lo >= hi:
                return
            yield region

    def _cut(self, edge: int) -> None:
        number = bisect_right(self._firsts, edge) - 1
        region = self._regions[number]
        if edge in (region.lo, region.hi):
            return
        self._regions.insert(number + 1, region.part(edge, region.hi))
        region.hi = edge
        self._firsts.insert(number + 1, edge)
        self._of_unit[edge:] += 1

    def _units(self, span: tuple[int, int]) -> tuple[int, int]:
        return span[0] // self._unit, -(-span[1] // self._unit)

    # --- findings -----------------------------------------------------------------------

    def _report(
        self,
        at: int,
        who: Issuers,
        bad: Array,
        region: _Region,
        others: Array,
        does: str,
        kind: str = "race",
    ) -> None:
        if not bad.any():
            return
        place = int(np.flatnonzero(bad)[0])
        other = int(others[int(who.rows[place])])
        lane = int(who.block[place]), int(who.warp[place]), int(who.lane[place])
        where, count = region.lo * self._unit, int(bad.sum())
        self._hazards.report_beside(kind, at, does, other, lane, where, count)


def _alike(
    columns: tuple[tuple[int, ...], ...],
) -> tuple[tuple[tuple[int, ...], Array], ...]:
    """Which places have the same columns."""
    found: dict[tuple[int, ...], list[int]] = {}
    for place, names in enumerate(columns):
        found.setdefault(names, []).append(place)
    return tuple((names, np.array(places)) for names, places in found.items())
