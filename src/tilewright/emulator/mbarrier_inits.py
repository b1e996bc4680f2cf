"""Who made each mbarrier, and whether those who use it may know of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import Array
from tilewright.emulator.async_shadow import Issuers

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine

WIDTH = 8  # bytes of an mbarrier
_UNSEEN = (
    "it uses the mbarrier at {:#x}, and nothing orders this behind its mbarrier.init "
    "(__syncthreads() would; between blocks fence.mbarrier_init and barrier.cluster)"
)


@dataclass(frozen=True, slots=True)
class _Init:
    """Which warp of the cluster made an mbarrier, in which of its periods."""

    column: int
    period: int


class MbarrierInits:
    """Of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._inits: dict[int, _Init] = {}  # place of the word → who made it
        self._known: Array | None = None  # which warps have used which word of their block

    def made(self, access: Access) -> None:
        """mbarrier.init: copies must know of it by a fence."""
        if self._machine.hazards is None:
            return
        clocks = self._machine.hazards.clocks
        index, on = self._machine.shared.places(access)
        block, warp, lane = np.nonzero(on)
        words, first = np.unique(index[block, warp, lane], return_index=True)
        block, warp = block[first], warp[first]
        columns, periods = clocks.column(block, warp), clocks.now(block, warp)[0]
        for word, column, period in zip(
            words.tolist(), columns.tolist(), periods.tolist(), strict=True
        ):
            self._inits[word] = _Init(column, period)
        if self._known is not None:
            self._known[..., words % self._known.shape[2]] = False

    def unknown(self, who: Issuers, words: Array) -> tuple[Array, Array]:
        """Which of these mbarriers' inits do not lie before now, and which lack a fence alone.

        Within a block a barrier is enough for copies, too: libcu++ (CUDA 13) relies on it.
        """
        hazards = self._machine.hazards
        known = [self._inits.get(word, _Init(0, -1)) for word in words.tolist()]
        if hazards is None:
            return np.zeros(len(words), bool), np.zeros(len(words), bool)
        column = np.array([it.column for it in known], np.int64)
        period = np.array([it.period for it in known], np.int64)
        happened, fenced = hazards.beside.visible(who, column, period)
        inited = hazards.beside.inited(who, column, period)
        warps = hazards.clocks.warps
        abroad = column // warps != hazards.clocks.column(who.block, who.warp) // warps
        return ~(happened | inited), abroad & happened & ~(fenced | inited)

    def check(self, access: Access, index: Array, on: Array) -> None:
        """A warp's first use of an mbarrier must lie behind mbarrier.init.

        The shadow forgets that once somebody has arrived. Of a warp one lane is looked at.
        """
        machine = self._machine
        block, warp = np.nonzero(np.logical_or.reduce(on, axis=-1))
        lane = on[block, warp].argmax(-1)
        words = index[block, warp, lane]
        if self._known is None:
            per_row = machine.shared.bytes.shape[1] // WIDTH
            self._known = np.zeros((*machine.full[:2], per_row), bool)
        place = words % self._known.shape[2]
        new = ~self._known[block, warp, place] | (access.rows is not None)
        if not new.any():
            return
        who = Issuers(block[new], warp[new], lane[new], block[new])
        unseen, _ = self.unknown(who, words[new])
        self._known[who.block, who.warp, place[new]] = True
        if unseen.any():
            at = int(np.flatnonzero(unseen)[0])
            thread = int(who.block[at]), int(who.warp[at]), int(who.lane[at])
            where = int(place[new][at]) * WIDTH
            machine.fault_at("race", access.at, _UNSEEN.format(where), *thread)
