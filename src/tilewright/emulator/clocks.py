"""What happened before what in a chunk of blocks: the order that barriers give to warps.

Each warp counts periods; a barrier ends the period of every warp that passes it. `seen[w, v]`
says which periods of warp v lie before the present one of warp w: those below it. Between the
lanes of one warp only __syncwarp makes an order: it ends a turn. A shuffle of what was loaded ends
one for reads: they are done, so that a later write of another lane cannot reach them.

The warps of a cluster know of each other: the columns of a row are those of its blocks, by rank.
Where copies run beside the warps there are more columns, which the same rules carry on:

    HAPPENED   periods that lie before now
    PROXIED    periods that also lie before a fence.proxy.async on the way to now
    INITED     periods whose mbarrier.init lie before a fence.mbarrier_init on the way to now
    agents     phases of mbarriers whose copies lie before now, see `agent`
"""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import Array, Mask

MOST_TURNS = (1 << 12) - 1  # of a period: a record has no room for more
MANY = 63  # in a record instead of a lane: several of them
MANY_WARPS = 1023  # the same of a warp
HAPPENED, PROXIED, INITED = range(3)
_AGENTS = 32  # mbarriers of a block that copies may signal; the order of more is not looked at


class Clocks:
    """Periods [b, W] and what is known of them [b, W, N]; b stays 1 while all blocks are alike.

    With `copies` the agents of asynchronous copies have columns, too.
    """

    def __init__(self, blocks: int, warps: int, peers: int = 1, copies: bool = False) -> None:
        self.blocks, self.warps, self.peers = blocks, warps, peers
        self.who = peers * warps  # of a cluster
        columns = self.who * (3 if copies else 1) + (_AGENTS * peers if copies else 0)
        self.knows_copies = copies
        rows = blocks if copies else 1
        self.period = np.zeros((rows, warps), np.int64)
        self.turn = np.zeros((rows, warps), np.int64)
        self.shuffles = np.zeros((rows, warps), np.int64)  # of loaded values, in this period
        self.seen = np.zeros((rows, warps, columns), np.int64)
        self.told: dict[int, Array] = {}  # barrier → what those know that arrived [B, N]
        self.heard = np.zeros((rows, warps, columns), np.int64)  # from flags, but not known yet
        self.fenced = np.zeros(
            (rows, warps, columns), np.int64
        )  # what lies before a fence: `fence`
        self.fences = False  # whether there was any
        # Every warp has seen all periods but the present one, the same for all.
        self.even = columns == warps
        ranks = np.arange(blocks if peers > 1 else 1)[:, None] % peers
        self.own = ranks * warps + np.arange(warps)  # [B or 1, W]: the column of each warp
        self._is_own = self.own[:, :, None] == np.arange(columns)  # [B or 1, W, N]
        self._agents: dict[tuple[int, int], int] = {}

    # --- barriers -----------------------------------------------------------------------

    def tell(self, barrier: int, warps: Array) -> None:
        """The warps [B, W] arrive at a barrier without waiting: they tell and learn nothing."""
        self._expand()
        self.even = False
        row = np.where(self._is_own, self.period[:, :, None] + 1, self.seen)
        known = np.where(warps[:, :, None], row, 0).max(1)
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
        latest = np.where(on, self.period + 1, -1).max(1)
        latest = np.maximum(latest, known[:, : self.who].max(1))[:, None]
        mine = self._is_own & on[:, :, None]
        known = np.where(mine.any(1), latest, known)
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
        self.seen = np.where(self._is_own & on[..., None], self.period[..., None], self.seen)
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

    # --- fences and flags ---------------------------------------------------------------

    def fence(self, mask: Mask) -> None:
        """A fence ends the period of its warp, so that a flag can say what lies before it.

        `fenced[w, v]` are the periods of warp v that lie before a fence of w, or of a warp that has
        passed a barrier with it since: what all fenced before the barrier, one may tell behind it.
        No period that the warp knows of is later than its own, so that what lies before a period
        of one warp lies before it in all warps that this one waited for.
        """
        on = self._end_period(mask)
        self.fences = True
        own = np.where(self._is_own, self.period[:, :, None], self.seen)
        self.fenced = np.where(on[:, :, None], np.maximum(self.fenced, own), self.fenced)

    def fence_proxy(self, mask: Mask) -> None:
        """fence.proxy.async: copies may be told of all that lies before it."""
        self._fence_section(self._end_period(mask), PROXIED, everything=True)

    def fence_init(self, mask: Mask) -> None:
        """fence.mbarrier_init: the mbarriers that this warp has made may be told of."""
        self._fence_section(self._end_period(mask), INITED, everything=False)

    def _end_period(self, mask: Mask) -> Array:
        self._expand()
        self.even = False
        on = np.ones((1, 1), bool) if mask is None else mask.any(-1)
        on = np.broadcast_to(on, self.period.shape)
        self._join(on)
        later = np.maximum(self.period + 1, self.seen[..., : self.who].max(-1))
        self.period = np.where(on, later, self.period)
        return on

    def _fence_section(self, on: Array, section: int, everything: bool) -> None:
        """Of the warps `on` a section of the columns knows what the first knows, or their own."""
        if not self.knows_copies:
            return  # nothing here asks for it
        mine = self._is_own[..., : self.who]
        others = self.seen[..., : self.who] if everything else 0
        known = np.where(mine, self.period[:, :, None], others)
        part = slice(section * self.who, (section + 1) * self.who)
        known = np.where(on[:, :, None], known, 0)
        self.seen[..., part] = np.maximum(self.seen[..., part], known)

    def learn(self, mask: Mask) -> None:
        """An acquiring access: from now on its warps know what they heard."""
        self._expand()
        on = np.ones((1, 1), bool) if mask is None else mask.any(-1)
        on = np.broadcast_to(on, self.period.shape)
        self._join(on)
        latest = self.seen[..., : self.who].max(-1)
        self.period = np.where(on, np.maximum(self.period, latest), self.period)

    def telling(self, block: int, warp: int) -> Array | None:
        """The periods [N] that lie before a flag which this warp sets now; None without a fence."""
        row: Array = self.fenced[min(block, len(self.fenced) - 1), warp]
        return row.copy() if row.any() else None

    def hear(self, block: int, warp: int, told: Array) -> None:
        """This warp read a flag; it may rely on that from its next fence or barrier on."""
        self.heard[block, warp] = np.maximum(self.heard[block, warp], told)

    def _join(self, on: Array) -> None:
        joined = np.maximum(self.seen, self.heard)
        self.seen = np.where(on[:, :, None], joined, self.seen)

    # --- clusters -----------------------------------------------------------------------

    def arrive(self, warps: Array, releases: bool) -> Array:
        """What the warps [B, W] of each cluster tell at its barrier: [clusters, N].

        Without `releases` it is what lies before their fences, and the mbarriers whose
        initialisation they have fenced.
        """
        if releases:
            self.fence(warps[..., None])
        self._expand()
        told = self.fenced.copy()
        if self.knows_copies:
            part = slice(INITED * self.who, (INITED + 1) * self.who)
            told[..., part] = np.maximum(told[..., part], self.seen[..., part])
        told = np.where(warps[..., None], told, 0)
        clusters: Array = told.reshape(-1, self.peers * self.warps, told.shape[-1]).max(1)
        return clusters

    def pass_barrier(self, warps: Array, told: Array) -> None:
        """The warps [B, W] go on behind their cluster's barrier, where this was told."""
        self._expand()
        rows = np.repeat(told, self.peers, 0)[:, None]
        self.heard = np.where(warps[..., None], np.maximum(self.heard, rows), self.heard)
        self.learn(warps[..., None])

    # --- asynchronous copies ------------------------------------------------------------

    def agent(self, rank: int, word: int) -> int | None:
        """The column of the copies that signal this mbarrier of a block; None beyond the last.

        Its periods are the phases of the mbarrier, counted from 0.
        """
        known = self._agents.get((rank, word))
        if known is None:
            first = 3 * self.who
            if first + len(self._agents) >= self.seen.shape[-1]:
                return None
            known = self._agents[rank, word] = first + len(self._agents)
        return known

    # --- questions ----------------------------------------------------------------------

    def before(
        self, block: Array, warp: Array, who: Array, period: Array, section: int = HAPPENED
    ) -> Array:
        """Whether periods of warps `who` of the same cluster lie before now in `warp`.

        `block` counts within the chunk. Of MANY_WARPS the least known warp decides.
        """
        row = block if self.period.shape[0] > 1 else np.zeros_like(block)
        one = np.minimum(who, self.who - 1) + section * self.who
        known = self.seen[row, warp, one]
        if (who == MANY_WARPS).any():
            first = section * self.who
            least = self.seen[row, warp, first : first + self.who].min(-1)
            known = np.where(who == MANY_WARPS, least, known)
        earlier: Array = period < known
        return earlier

    def late(self, block: Array, warp: Array, periods: Array) -> Array:
        """Of periods [n, who], one for each warp of the cluster, those not before now in `warp`.

        A period below 0 is none; the warp itself is never late.
        """
        row = block if self.period.shape[0] > 1 else np.zeros_like(block)
        others = np.arange(self.who) != self.column(block, warp)[:, None]
        known = self.seen[row, warp, : self.who]
        found: Array = others & (periods >= 0) & (periods >= known)
        return found

    def column(self, block: Array, warp: Array) -> Array:
        """The number of a warp among those of its cluster."""
        column: Array = warp if self.peers == 1 else block % self.peers * self.warps + warp
        return column

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
