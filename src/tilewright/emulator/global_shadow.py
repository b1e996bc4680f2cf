"""Shadow of the caller's arrays: races between warps and blocks, unwritten and unset cells.

Blocks are ordered only by what they tell each other: a fence, then an atomic or a strong store at
an address that the other block reads with an atomic or a strong load. One record is an int64:

    period << 43 | block << 27 | strong << 26 | instruction << 12 | warp << 6 | lane
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.clocks import Clocks
from tilewright.emulator.shadow import NOBODY, Cells, Conflict

_STRONG = 1 << 26
MOST_BLOCKS = 1 << 16  # that are told apart
_BLOCKS = MOST_BLOCKS - 1
_MOST_INSTRUCTIONS = (1 << 14) - 1
_MOST_WARPS = 1 << 14  # of a grid that are told apart in what blocks know of each other
_WARP = _BLOCKS << 27 | 63 << 6  # of a record: which warp of the grid


@dataclass(slots=True)
class Knowledge:
    """What blocks know of each other, and what was told at which address.

    Either is an array [blocks of the grid, warps]: the periods below this lie before now. With
    very many warps in the grid those of a block count as one, and less is found.
    """

    blocks: int  # of the grid
    warps: int
    of_block: dict[int, Array] = field(default_factory=dict)
    at_address: dict[int, Array] = field(default_factory=dict)
    heard: dict[int, dict[int, Array]] = field(default_factory=dict)  # block → address → told

    def __post_init__(self) -> None:
        if self.blocks * self.warps > _MOST_WARPS:
            self.warps = 1

    def release(self, block: int, periods: Array, address: int) -> None:
        """A block tells of its warps that these `periods` [W] lie before a fence."""
        known = self.of_block.get(block)
        told = self.at_address.get(address)
        if told is None:
            told = np.zeros((self.blocks, self.warps), np.int32)
        told = told.copy() if known is None else np.maximum(told, known)
        own = periods if self.warps > 1 else periods.max(keepdims=True)
        told[block] = np.maximum(told[block], own)
        self.at_address[address] = told

    def acquire(self, block: int, address: int) -> None:
        told = self.at_address.get(address)
        heard = self.heard.setdefault(block, {})
        if told is None or heard.get(address) is told:
            return
        heard[address] = told
        known = self.of_block.get(block)
        self.of_block[block] = told if known is None else np.maximum(told, known)

    def forget(self, blocks: Iterable[int]) -> None:
        """These blocks have ended."""
        for block in blocks:
            self.of_block.pop(block, None)
            self.heard.pop(block, None)


class ArrayTable:
    """Last write and last reads of every cell of one array.

    Two reads are kept: the last, and one before it that is not ordered with it, of another block
    rather than of another warp.
    """

    def __init__(self, cells: int, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self.written = np.full(cells, NOBODY, np.int64)
        self.read = np.full(cells, NOBODY, np.int64)
        self.other = np.full(cells, NOBODY, np.int64)

    def split(self, parts: int) -> None:
        self.written = np.repeat(self.written, parts)
        self.read = np.repeat(self.read, parts)
        self.other = np.repeat(self.other, parts)

    def on_read(
        self, cells: Cells, at: int, strong: bool, clocks: Clocks, ids: Array
    ) -> Conflict | None:
        record = _record(cells, at, strong, clocks, ids)
        found = self._unordered(self.written[cells.index], record, cells, strong, clocks, ids)
        conflict = _conflict(found, self.written, cells, record, wrote=True)
        old = self.read[cells.index]
        late = self._unordered(old, record, cells, False, clocks, ids)
        late = late[(old[late] ^ record[late]) & _WARP != 0]
        self._keep(cells.index[late], old[late], record[late])
        self.read[cells.index] = record
        last = self.read[cells.index]
        lost = np.flatnonzero(
            (last ^ record) & _WARP != 0
        )  # others read it in the same instruction
        self._keep(cells.index[lost], record[lost], last[lost])
        return conflict

    def _keep(self, index: Array, record: Array, last: Array) -> None:
        """Reads that others come after, whose records are `last`."""
        if not index.size:
            return
        other = self.other[index]
        abroad = _block(record) != _block(last)
        better = (other == NOBODY) | abroad | (_block(other) == _block(last))
        order = np.argsort(abroad[better], kind="stable")  # the last one assigned stays
        self.other[index[better][order]] = record[better][order]

    def on_write(
        self, cells: Cells, at: int, strong: bool, clocks: Clocks, ids: Array
    ) -> Conflict | None:
        record = _record(cells, at, strong, clocks, ids)
        found = self._unordered(self.written[cells.index], record, cells, strong, clocks, ids)
        conflict = _conflict(found, self.written, cells, record, wrote=True)
        for reads in (self.other, self.read):
            if conflict is None:
                found = self._unordered(reads[cells.index], record, cells, strong, clocks, ids)
                conflict = _conflict(found, reads, cells, record, wrote=False)
        self.written[cells.index] = record
        if not strong:  # what read before is ordered before this, or was reported
            self.read[cells.index] = self.other[cells.index] = NOBODY
        return conflict

    def _unordered(
        self, old: Array, new: Array, cells: Cells, strong: bool, clocks: Clocks, ids: Array
    ) -> Array:
        suspects = np.flatnonzero(old != NOBODY)
        if not suspects.size:
            return suspects
        old, new = old[suspects], new[suspects]
        block, warp = cells.block[suspects], cells.warp[suspects]
        same_block = _block(old) == _block(new)
        who, period = old >> 6 & 63, old >> 43
        column = clocks.column(block, who)
        ordered = same_block & ((who == warp) | clocks.before(block, warp, column, period))
        if clocks.peers > 1:
            ordered |= _before_in_cluster(_block(old), who, period, block, warp, clocks, ids)
        if strong:
            ordered |= old & _STRONG != 0
        left = np.flatnonzero(~ordered & ~same_block)
        if left.size and self.knowledge.of_block:
            mine, theirs = _block(new[left]), _block(old[left])
            column = np.minimum(who[left], self.knowledge.warps - 1)
            for one in np.unique(mine).tolist():
                known = self.knowledge.of_block.get(one)
                if known is not None:
                    here = mine == one
                    places = left[here]
                    ordered[places] = period[places] < known[theirs[here], column[here]]
        found: Array = suspects[~ordered]
        return found


def writers(records: Array) -> list[tuple[int, int, int, int]]:
    """Block id, warp, period and instruction of records, each once."""
    parts = [_block(records), records >> 6 & 63, records >> 43, records >> 12 & _MOST_INSTRUCTIONS]
    rows = np.unique(np.stack(parts, 1), axis=0).tolist()
    return [(block, warp, period, at) for block, warp, period, at in rows]


def _before_in_cluster(
    other: Array, who: Array, period: Array, block: Array, warp: Array, clocks: Clocks, ids: Array
) -> Array:
    """Whether what warps `who` of blocks `other` (by id) of the same cluster did lies before now.

    `block` counts within the chunk, whose blocks have these `ids`.
    """
    found = np.zeros(len(other), bool)
    first = block - block % clocks.peers
    for rank in range(clocks.peers):
        same = ids[first + rank] & _BLOCKS == other
        if same.any():
            column = np.full(len(other), rank * clocks.warps) + who
            found |= same & clocks.before(block, warp, column, period)
    return found


def _block(record: Array) -> Array:
    found: Array = record >> 27 & _BLOCKS
    return found


def _record(cells: Cells, at: int, strong: bool, clocks: Clocks, ids: Array) -> Array:
    period, _ = clocks.now(cells.block, cells.warp)
    fixed = min(at, _MOST_INSTRUCTIONS) << 12 | (_STRONG if strong else 0)
    block = ids[cells.block] & _BLOCKS
    record: Array = period << 43 | block << 27 | cells.warp << 6 | cells.lane | fixed
    return record


def _conflict(
    found: Array, table: Array, cells: Cells, record: Array, wrote: bool
) -> Conflict | None:
    """The first of the places found, of another block rather than of the same."""
    if not found.size:
        return None
    other = table[cells.index[found]]
    abroad = found[_block(other) != _block(record[found])]
    place = int(abroad[0] if abroad.size else found[0])
    one = int(table[cells.index[place]])
    at = one >> 12 & _MOST_INSTRUCTIONS
    return Conflict(place, at, one >> 6 & 63, one & 63, wrote, one >> 27 & _BLOCKS)
