"""What happened before what in a chunk of blocks: the order that barriers give to warps.

Each warp counts periods; a barrier ends the period of every warp that passes it. `seen[w, v]`
says which periods of warp v lie before the present one of warp w: those below it. Between the
lanes of one warp only __syncwarp makes an order: it ends a turn. A shuffle of what was loaded ends
one for reads: they are done, so that a later write of another lane cannot reach them.
"""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import Array, Mask

MOST_TURNS = (1 << 12) - 1  # of a period: a record has no room for more
MANY = 63  # in a record instead of a warp or a lane: several of them


class Clocks:
    """Periods [b, W] and what is known of them [b, W, W]; b stays 1 while all blocks are alike."""

    def __init__(self, blocks: int, warps: int) -> None:
        self.blocks, self.warps = blocks, warps
        self.period = np.zeros((1, warps), np.int64)
        self.turn = np.zeros((1, warps), np.int64)
        self.shuffles = np.zeros((1, warps), np.int64)  # of loaded values, in this period
        self.seen = np.zeros((1, warps, warps), np.int64)
        self.told: dict[int, Array] = {}  # barrier → what those know that arrived [B, W]
        self.heard = np.zeros((1, warps, warps), np.int64)  # from flags, but not known yet
        self.fenced = np.zeros((1, warps, warps), np.int64)  # what lies before a fence, see `fence`
        self.fences = False  # whether there was any
        self.even = True  # every warp has seen all periods but the present one, the same for all

    def tell(self, barrier: int, warps: Array) -> None:
        """The warps [B, W] arrive at a barrier without waiting: they tell and learn nothing."""
        self._expand()
        self.even = False
        known = np.where(warps[:, :, None], self.seen, 0).max(1)
        known = np.where(warps, self.period + 1, known)
        told = self.told.get(barrier)
        self.told[barrier] = known if told is None else np.maximum(told, known)
        self.period += warps

    def meet(self, complete: Array, waiting: Array, barrier: int) -> None:
        """The warps [B, W] that wait pass a barrier together, in the blocks [B] that are complete.

        They learn what those told there that have arrived.
        """
        if self.even and complete.all() and waiting.all():
            self.period += 1
            self.turn[:] = self.shuffles[:] = 0
            self.seen[:] = self.period[:, None, :]
            return
        self._expand()
        self.even = False
        on = waiting & complete[:, None]
        self._join(on)
        known = np.where(on[:, :, None], self.seen, -1).max(1)
        latest = np.where(on, self.period + 1, known).max(1, keepdims=True)
        known = np.where(on, latest, known)
        if (told := self.told.get(barrier)) is not None:
            known = np.maximum(known, told)
            told[complete] = 0
        self.period = np.where(on, latest, self.period)
        self.turn[on] = self.shuffles[on] = 0
        joined = np.maximum(self.seen, known[:, None, :])
        self.seen = np.where(on[:, :, None], joined, self.seen)
        if self.fences:
            fenced = np.where(on[:, :, None], self.fenced, 0).max(1, keepdims=True)
            self.fenced = np.where(on[:, :, None], fenced, self.fenced)

    def sync_warps(self, mask: Mask) -> None:
        """__syncwarp in the warps that have an active lane."""
        warps = np.ones((1, 1), bool) if mask is None else mask.any(-1)
        if self.turn.shape[0] < warps.shape[0]:
            self._expand()
        self.turn += warps
        spent = warps & (self.turn + self.shuffles >= MOST_TURNS)
        if spent.any():
            self._renew(spent)

    def _renew(self, warps: Array) -> None:
        """Begins a new period in warps that have just been synced and have no turns left.

        After thousands of shuffles alone this orders what only __syncwarp would.
        """
        self._expand()
        self.even = False
        on = np.broadcast_to(warps, self.period.shape)
        self.period += on
        own = np.arange(self.warps)
        self.seen[:, own, own] = np.where(on, self.period, self.seen[:, own, own])
        self.turn[on] = self.shuffles[on] = 0

    def shuffle(self, mask: Mask) -> None:
        """A shuffle of what was loaded, in the warps that have an active lane."""
        warps = np.ones((1, 1), bool) if mask is None else mask.any(-1)
        if self.shuffles.shape[0] < warps.shape[0]:
            self._expand()
        self.shuffles += warps
        spent = warps & (self.turn + self.shuffles >= MOST_TURNS)
        if spent.any():
            self._renew(spent)

    def fence(self, mask: Mask) -> None:
        """A fence ends the period of its warp, so that a flag can say what lies before it.

        `fenced[w, v]` are the periods of warp v that lie before a fence of w, or of a warp that has
        passed a barrier with it since: what all fenced before the barrier, one may tell behind it.
        No period that the warp knows of is later than its own, so that what lies before a period
        of one warp lies before it in all warps that this one waited for.
        """
        self._expand()
        self.even, self.fences = False, True
        on = np.ones((1, 1), bool) if mask is None else mask.any(-1)
        on = np.broadcast_to(on, self.period.shape)
        self._join(on)
        later = np.maximum(self.period + 1, self.seen.max(-1))
        self.period = np.where(on, later, self.period)
        own = np.where(np.eye(self.warps, dtype=bool), self.period[:, :, None], self.seen)
        self.fenced = np.where(on[:, :, None], np.maximum(self.fenced, own), self.fenced)

    def learn(self, mask: Mask) -> None:
        """An acquiring access: from now on its warps know what they heard."""
        self._expand()
        on = np.ones((1, 1), bool) if mask is None else mask.any(-1)
        on = np.broadcast_to(on, self.period.shape)
        self._join(on)
        self.period = np.where(on, np.maximum(self.period, self.seen.max(-1)), self.period)

    def telling(self, block: int, warp: int) -> Array | None:
        """The periods [W] that lie before a flag which this warp sets now; None without a fence."""
        row: Array = self.fenced[min(block, len(self.fenced) - 1), warp]
        return row.copy() if row.any() else None

    def hear(self, block: int, warp: int, told: Array) -> None:
        """This warp read a flag; it may rely on that from its next fence or barrier on."""
        self.heard[block, warp] = np.maximum(self.heard[block, warp], told)

    def _join(self, on: Array) -> None:
        joined = np.maximum(self.seen, self.heard)
        self.seen = np.where(on[:, :, None], joined, self.seen)

    def before(self, block: Array, warp: Array, who: Array, period: Array) -> Array:
        """Whether periods of warps `who` of the same block lie before now in `warp`.

        `block` counts within the chunk. Of MANY the least known warp decides.
        """
        row = block if self.period.shape[0] > 1 else np.zeros_like(block)
        one = np.minimum(who, self.warps - 1)
        known = self.seen[row, warp, one]
        if (who == MANY).any():
            known = np.where(who == MANY, self.seen[row, warp].min(-1), known)
        earlier: Array = period < known
        return earlier

    def late(self, block: Array, warp: Array, periods: Array) -> Array:
        """Of periods [n, W], one for each warp of the block, those not before now in `warp`.

        A period below 0 is none; the warp itself is never late.
        """
        row = block if self.period.shape[0] > 1 else np.zeros_like(block)
        others = np.arange(self.warps) != warp[:, None]
        found: Array = others & (periods >= 0) & (periods >= self.seen[row, warp])
        return found

    def now(self, block: Array, warp: Array, reads: bool = False) -> tuple[Array, Array]:
        """Period and turn of each of these warps; of `reads` shuffles end a turn, too."""
        row = block if self.period.shape[0] > 1 else np.zeros_like(block)
        turn_row = block if self.turn.shape[0] > 1 else np.zeros_like(block)
        turn = self.turn[turn_row, warp]
        return self.period[row, warp], turn + self.shuffles[turn_row, warp] if reads else turn

    def _expand(self) -> None:
        for name in ("period", "turn", "shuffles", "seen", "heard", "fenced"):
            one = getattr(self, name)
            if one.shape[0] != self.blocks:
                setattr(self, name, np.repeat(one, self.blocks, 0))
