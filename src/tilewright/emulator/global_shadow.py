"""Shadow of the caller's arrays: races between warps and blocks, unwritten and unset cells.

Blocks are ordered only by what they tell each other: a fence, then an atomic or a strong store at
an address that the other block reads with an atomic or a strong load. One record is an int64:

    period << 43 | block << 27 | strong << 26 | instruction << 12 | warp << 6 | lane
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.clocks import MANY, Clocks
from tilewright.emulator.shadow import NOBODY, Cells, Conflict

_STRONG = 1 << 26
MOST_BLOCKS = 1 << 16  # that are told apart
_BLOCKS = MOST_BLOCKS - 1
_MOST_INSTRUCTIONS = (1 << 14) - 1
_WARP = _BLOCKS << 27 | 63 << 6  # of a record: which warp of the grid


@dataclass(slots=True)
class Knowledge:
    """What blocks know of each other, and what was told at which address.

    Either is an array: for each block of the grid, its periods below this lie before now.
    """

    blocks: int  # of the grid
    of_block: dict[int, Array] = field(default_factory=dict)
    at_address: dict[int, Array] = field(default_factory=dict)

    def release(self, block: int, period: int, address: int) -> None:
        known = self.of_block.get(block)
        told = self.at_address.get(address)
        if told is None:
            told = np.zeros(self.blocks, np.int64)
        told = told.copy() if known is None else np.maximum(told, known)
        told[block] = max(int(told[block]), period)
        self.at_address[address] = told

    def acquire(self, block: int, address: int) -> None:
        told = self.at_address.get(address)
        known = self.of_block.get(block)
        if told is None or known is told:
            return
        self.of_block[block] = told if known is None else np.maximum(told, known)


class ArrayTable:
    """Last write and last read of every cell of one array."""

    def __init__(self, cells: int, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self.written = np.full(cells, NOBODY, np.int64)
        self.read = np.full(cells, NOBODY, np.int64)

    def split(self, parts: int) -> None:
        self.written = np.repeat(self.written, parts)
        self.read = np.repeat(self.read, parts)

    def on_read(
        self, cells: Cells, at: int, strong: bool, clocks: Clocks, ids: Array
    ) -> Conflict | None:
        record = _record(cells, at, strong, clocks, ids)
        found = self._unordered(self.written[cells.index], record, cells, strong, clocks)
        conflict = _conflict(found, self.written, cells, wrote=True)
        old = self.read[cells.index]
        others = (old != NOBODY) & ((old ^ record) >> 43 == 0) & ((old ^ record) & 0xFC0 != 0)
        others |= (old != NOBODY) & ((old ^ record) >> 27 & _BLOCKS != 0)
        late = np.zeros(len(old), bool)
        late[self._unordered(old, record, cells, False, clocks)] = True
        others &= late
        self.read[cells.index] = record
        several = others | (self.read[cells.index] & _WARP != record & _WARP)
        if several.any():  # more than one warp of the grid reads this cell
            self.read[cells.index[several]] |= MANY << 6
        return conflict

    def on_write(
        self, cells: Cells, at: int, strong: bool, clocks: Clocks, ids: Array
    ) -> Conflict | None:
        record = _record(cells, at, strong, clocks, ids)
        found = self._unordered(self.written[cells.index], record, cells, strong, clocks)
        conflict = _conflict(found, self.written, cells, wrote=True)
        if conflict is None:
            found = self._unordered(self.read[cells.index], record, cells, strong, clocks)
            conflict = _conflict(found, self.read, cells, wrote=False)
        self.written[cells.index] = record
        if not strong:  # what read before is ordered before this, or was reported
            self.read[cells.index] = NOBODY
        return conflict

    def _unordered(
        self, old: Array, new: Array, cells: Cells, strong: bool, clocks: Clocks
    ) -> Array:
        suspects = np.flatnonzero(old != NOBODY)
        if not suspects.size:
            return suspects
        old, new = old[suspects], new[suspects]
        block, warp = cells.block[suspects], cells.warp[suspects]
        same_block = (old ^ new) >> 27 & _BLOCKS == 0
        who, period = old >> 6 & 63, old >> 43
        ordered = same_block & ((who == warp) | clocks.before(block, warp, who, period))
        if strong:
            ordered |= old & _STRONG != 0
        left = np.flatnonzero(~ordered & ~same_block)
        if left.size and self.knowledge.of_block:
            mine, theirs = new[left] >> 27 & _BLOCKS, old[left] >> 27 & _BLOCKS
            for one in np.unique(mine).tolist():
                known = self.knowledge.of_block.get(one)
                if known is not None:
                    places = left[mine == one]
                    ordered[places] = period[places] < known[theirs[mine == one]]
        found: Array = suspects[~ordered]
        return found


def _record(cells: Cells, at: int, strong: bool, clocks: Clocks, ids: Array) -> Array:
    period, _ = clocks.now(cells.block, cells.warp)
    fixed = min(at, _MOST_INSTRUCTIONS) << 12 | (_STRONG if strong else 0)
    block = ids[cells.block] & _BLOCKS
    record: Array = period << 43 | block << 27 | cells.warp << 6 | cells.lane | fixed
    return record


def _conflict(found: Array, table: Array, cells: Cells, wrote: bool) -> Conflict | None:
    if not found.size:
        return None
    place = int(found[0])
    record = int(table[cells.index[place]])
    at = record >> 12 & _MOST_INSTRUCTIONS
    return Conflict(place, at, record >> 6 & 63, record & 63, wrote, record >> 27 & _BLOCKS)
