"""Order by flags: what a warp tells at an address, and who learns it there.

A warp that fences and then touches an address with an atomic or a strong store tells there what
lies before its fence. A warp of its block that touches the address with an atomic or a strong
load has heard of it, and knows it from its next fence or barrier on. Blocks tell each other the
same at addresses of arrays, for all of their warps and without the reader's fence.
"""

from __future__ import annotations

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import Array
from tilewright.emulator.clocks import Clocks
from tilewright.emulator.global_shadow import Knowledge
from tilewright.emulator.traits import Traits

_BLOCKS = 0xFFFF
_Lane = tuple[int, int, int, int]  # block of the chunk, warp, place and address


class Flags:
    """Of a chunk: its warps by their clocks, and its blocks by what the launch knows of them."""

    def __init__(self, clocks: Clocks, knowledge: Knowledge, traits: Traits) -> None:
        self.ids = np.zeros(1, np.int64)  # of the blocks of the chunk in the grid
        self._clocks, self._knowledge, self._traits = clocks, knowledge, traits
        self._told: dict[tuple[int, int], Array] = {}  # block and address → periods of its warps

    def store(self, access: Access, shared: bool) -> None:
        if self._traits.strong[access.at]:
            self._fence_of_its_own(access)
            if self._clocks.fences:
                self._tell(self._lanes(access, shared), shared)

    def load(self, access: Access, shared: bool) -> None:
        if self._traits.strong[access.at] and self._anything(shared):
            self._hear(self._lanes(access, shared), shared)
            if self._traits.acquires[access.at]:
                self._clocks.learn(access.active)

    def exchange(self, access: Access, shared: bool) -> None:
        """An atomic hears and tells, one warp after the other."""
        self._fence_of_its_own(access)
        if not (self._clocks.fences or self._anything(shared)):
            return
        for lane in self._lanes(access, shared):
            self._hear([lane], shared)
            if self._clocks.fences:
                self._tell([lane], shared)
        if self._traits.acquires[access.at]:
            self._clocks.learn(access.active)

    def _anything(self, shared: bool) -> bool:
        return bool(self._told) or (not shared and bool(self._knowledge.at_address))

    def _fence_of_its_own(self, access: Access) -> None:
        if self._traits.releases[access.at]:
            self._clocks.fence(access.active)

    def _tell(self, lanes: list[_Lane], shared: bool) -> None:
        for block, warp, place, address in lanes:
            row = self._clocks.telling(block, warp)
            if row is None:
                continue
            told = self._told.get((place, address))
            self._told[place, address] = row if told is None else np.maximum(told, row)
            if not shared:
                periods = row[self._clocks.own[block % len(self._clocks.own)]]
                self._knowledge.release(self._of_grid(block), periods, address)

    def _hear(self, lanes: list[_Lane], shared: bool) -> None:
        for block, warp, place, address in lanes:
            told = self._told.get((place, address))
            if told is not None:
                self._clocks.hear(block, warp, told)
            if not shared:
                self._knowledge.acquire(self._of_grid(block), address)

    def _of_grid(self, block: int) -> int:
        return int(self.ids[block]) & _BLOCKS

    def _lanes(self, access: Access, shared: bool) -> list[_Lane]:
        """Each once, by address.

        The place of an address in shared memory is the block that the memory belongs to; that of
        one in arrays is the cluster, whose blocks tell each other at it.
        """
        shape = (self._clocks.blocks, *access.address.shape[1:])
        on = np.broadcast_to(True if access.active is None else access.active, shape)
        block, warp, lane = np.nonzero(on)
        address = np.broadcast_to(access.address, shape)[block, warp, lane]
        place = block - block % self._clocks.peers
        if shared:
            place = block if access.rows is None else access.rows[block, warp, lane]
        lanes = np.unique(np.stack([block, warp, place, address], 1), axis=0)
        return [(one, who, at, where) for one, who, at, where in lanes.tolist()]
