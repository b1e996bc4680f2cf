"""Blocks of a cluster that touch each other's shared memory, which ends with its block.

What others do to the memory of a block must lie before the end of one of its threads: a cluster's
barrier at the end does that, and so does waiting for the last arrivals at one's mbarriers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array

if TYPE_CHECKING:
    from tilewright.emulator.access import Access
    from tilewright.emulator.machine import Machine

KIND = "ended-peer"


class PeerWatch:
    """Of the clusters of a chunk."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        who = machine.peers * machine.warps
        # Of the memory of each block and each warp of its cluster: when it last touched it, how.
        self._last = np.full((machine.blocks, who if machine.peers > 1 else 0), -1, np.int64)
        self._how = np.zeros(self._last.shape, np.int64)
        self._over = np.zeros(machine.blocks, bool)

    def touches_ended(self, at: int, lanes: Array, rows: Array) -> None:
        """Lanes [B, W, 32] touch the memory of blocks that have ended, of these rows."""
        where = np.argwhere(np.broadcast_to(lanes, self._machine.full))
        if len(where):
            block, warp, lane = (int(i) for i in where[0])
            peer = self._machine.findings.block_id(int(rows[block, warp, lane]))
            what = (
                f"it touches the shared memory of block {peer}, which has ended: a cluster's "
                "blocks must stay until nobody touches them any more (barrier.cluster at the end)"
            )
            self._machine.fault_at(KIND, at, what, block, warp, lane)

    def touches(self, access: Access) -> None:
        """An access of lanes of which some mean the memory of other blocks."""
        hazards, machine = self._machine.hazards, self._machine
        if hazards is None or access.rows is None:
            return
        on = np.ones(machine.full, bool) if access.active is None else access.active
        own = np.arange(machine.blocks).reshape(-1, 1, 1)
        block, warp, lane = np.nonzero(
            np.broadcast_to(on, access.rows.shape) & (access.rows != own)
        )
        row = access.rows[block, warp, lane]
        who = hazards.clocks.column(block, warp)
        self._last[row, who] = hazards.clocks.now(block, warp)[0]
        self._how[row, who] = access.at

    def exits(self) -> None:
        """Looks at the blocks whose last thread has just ended."""
        machine, hazards = self._machine, self._machine.hazards
        if hazards is None or machine.peers == 1:
            return
        over = machine.exited.all((1, 2)) & ~self._over
        if not over.any():
            return
        self._over |= over
        known = hazards.clocks.seen[..., : self._last.shape[1]].max(1)
        late = over[:, None] & (self._last >= known)
        for row, who in np.argwhere(late).tolist():
            rank, warp = divmod(who, machine.warps)
            if row % machine.peers == rank:
                continue
            block = row - row % machine.peers + rank
            what = (
                f"block {machine.findings.block_id(row)}, whose shared memory it touches, ends "
                "with nothing that makes it wait for this (barrier.cluster at the end would)"
            )
            machine.fault_at(KIND, int(self._how[row, who]), what, block, warp, 0)
