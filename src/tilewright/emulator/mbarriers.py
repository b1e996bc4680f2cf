"""mbarrier objects: words in shared memory that count arrivals and bytes; see mbarrier_word.py.

A phase ends when no arrival is pending and as many bytes have come as were expected; then the
next one begins with the expected count. What those did that arrived lies before what those do
next that saw the phase end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import Array
from tilewright.emulator.mbarrier_inits import WIDTH, MbarrierInits
from tilewright.emulator.mbarrier_word import (
    BYTES,
    EXPECTED,
    MARK,
    MOST,
    PHASE,
    ZERO_BYTES,
    fresh,
    in_use,
    pending_of,
    state,
)

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine

_NONE = "no mbarrier lies at {:#x}: mbarrier.init has not run, or something was stored over it"
_TOO_MANY = "more arrive at the mbarrier at {:#x} than it was made for"
_TOO_FAR = f"the bytes that are missing at the mbarrier at {{:#x}} must be {MOST:,} at most"
_IN_USE = (
    "it makes anew the mbarrier at {:#x}, which is in use: all must have waited there, and then "
    "mbarrier.inval comes first"
)
_FOREIGN = "the mbarrier at {:#x} is another block's, where one can arrive, and nothing else"
_COMPLETES = "it says .noComplete, and completes the phase of the mbarrier at {:#x}"


@dataclass(frozen=True, slots=True)
class Arrival:
    """What each lane does: `count` arrivals, `nbytes` more to expect; fewer if they have come."""

    count: Array | int = 0
    nbytes: Array | int = 0
    drop: bool = False  # and leave the barrier for good
    may_complete: bool = True
    releases: bool = True


@dataclass(slots=True)
class _Tracked:
    """Arrivals that happen when the copies of a lane before number `copies` have landed."""

    access: Access
    lanes: Array
    copies: int


class Mbarriers:
    """Those of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._told: dict[int, Array] = {}  # place of the word → what those know that arrived
        self._ended: dict[int, Array] = {}  # the same, of the phase that ended last
        self._waits: dict[int, tuple[Access, Array]] = {}  # instruction → lanes it made wait
        self._tracked: list[_Tracked] = []
        self._has_changed = False
        self.inits = MbarrierInits(machine)
        self._left: dict[int, int] = {}  # place of the word → what was last counted there
        self._phases: dict[int, int] = {}  # how many have ended, over all that were made there

    def make(self, access: Access, count: Array) -> None:
        """mbarrier.init, for so many arrivals; one that is in use is reported."""
        count = self.within(access, count, 1, "its count")
        index, on = self._machine.shared.places(access)
        memory, words = self._words(), index[on].tolist()
        used = [in_use(word) and self._left.get(at) == word
                for at, word in zip(words, memory[words].tolist(), strict=True)]  # fmt: skip
        self._fault("invalid-barrier", access, _IN_USE, on, np.array(used, bool))
        self._machine.shared.store(access, fresh(count))
        self._left.update(zip(words, memory[words].tolist(), strict=True))
        self.inits.made(access)

    def within(self, access: Access, number: Array, least: int, what: str) -> Array:
        """Numbers from registers, int64, brought to `least` to MOST; others are reported."""
        _, on = self._machine.shared.places(access)
        given = np.broadcast_to(number.astype(np.int64), on.shape)
        kept: Array = np.clip(given, least, MOST)
        if (bad := (given != kept)[on]).any():
            why = f"{what} {int(given[on][bad.argmax()]):,} must be {least} to {MOST:,}"
            self._fault("invalid-barrier", access, why, on, bad)
        return kept

    def check_own(self, access: Access) -> None:
        """Reports lanes that mean an mbarrier of another block."""
        if access.rows is None:
            return
        _, on = self._machine.shared.places(access)
        own = np.arange(self._machine.blocks).reshape(-1, 1, 1)
        self._fault("invalid-barrier", access, _FOREIGN, on, (access.rows != own)[on])

    def arrive(self, access: Access, arrival: Arrival) -> Array:
        """The words [B, W, 32] that each lane found: its token of the phase."""
        index, on = self._machine.shared.places(access)
        memory, flat = self._machine.shared.by_width[WIDTH].reshape(-1), index[on]
        found = np.zeros(on.shape, np.uint64)
        good = (memory[flat] >> np.uint64(MARK)) == 1
        self._fault("invalid-barrier", access, _NONE, on, ~good)
        self._touch(access, index, on, wait=False)
        self._machine.timeline.arrives(access, index, on)
        if arrival.releases:
            self._tell(access, index, on)
        if good.any():
            on = on.copy()
            on[on] = good
            found[on] = self._count(memory, index, on, arrival, access)
        return found

    def _count(
        self, memory: Array, index: Array, on: Array, arrival: Arrival, access: Access
    ) -> Array:
        """Counts lane by lane where a phase ends between them, else all lanes of a word at once."""
        flat = index[on]
        count, nbytes = (
            np.broadcast_to(np.asarray(each), on.shape)[on].astype(np.int64)
            for each in (arrival.count, arrival.nbytes)
        )
        words, group, rank = _grouped(flat)
        before = memory[flat].copy()
        total = np.bincount(group, count, len(words)).astype(np.int64)
        if (total <= _pending(memory[words])).all():
            order = np.lexsort((rank, group))
            earlier = np.cumsum(count[order]) - count[order]
            first = earlier[rank[order] == 0]
            earlier -= first[group[order]]
            before[order] -= earlier.astype(np.uint64)
            added = np.bincount(group, nbytes, len(words)).astype(np.int64)
            self._change(memory, words, total, added, arrival, (access, index, on))
            return before
        for turn in range(int(rank.max()) + 1):
            now = rank == turn
            before[now] = memory[flat[now]]
            lanes = on.copy()
            lanes[on] = now
            where = (access, index, lanes)
            self._change(memory, flat[now], count[now], nbytes[now], arrival, where)
        return before

    def _change(
        self,
        memory: Array,
        words: Array,
        count: Array,
        nbytes: Array,
        arrival: Arrival,
        where: tuple[Access, Array, Array] | None,
    ) -> None:
        """Counts once at each of these words, which differ; `where` may be missing for bytes."""
        old = memory[words].astype(np.int64)
        pending, expected = old & MOST, old >> EXPECTED & MOST
        due = (old >> BYTES & (2 * ZERO_BYTES - 1)) - ZERO_BYTES + nbytes
        if arrival.drop:
            expected = np.maximum(expected - count, 0)
        pending = pending - count
        if where is not None and (pending < 0).any():
            access, index, lanes = where
            self._fault("invalid-barrier", access, _TOO_MANY, lanes,
                        np.isin(index[lanes], words[pending < 0]))  # fmt: skip
            pending = np.maximum(pending, 0)
        if (far := np.abs(due) > MOST).any():
            if where is not None:
                access, index, lanes = where
                self._fault("invalid-barrier", access, _TOO_FAR, lanes,
                            np.isin(index[lanes], words[far]))  # fmt: skip
            due = np.clip(due, -MOST, MOST)
        ends = (pending == 0) & (due == 0)
        if ends.any():
            if where is not None and not arrival.may_complete:
                access, index, lanes = where
                self._fault("invalid-barrier", access, _COMPLETES, lanes,
                            np.isin(index[lanes], words[ends]))  # fmt: skip
            for word in words[ends].tolist():
                self._ended[word] = self._told.pop(word, self._ended.get(word, _NOTHING))
                self._phases[word] = self._phases.get(word, 0) + 1
                self._machine.timeline.ends(word, self._phases[word])
        phase = (old >> PHASE & 1) ^ ends
        new = np.int64(1) << MARK | phase << PHASE | (due + ZERO_BYTES) << BYTES
        new |= expected << EXPECTED | np.where(ends, expected, pending)
        memory[words] = new.astype(np.uint64)
        self._left.update(zip(words.tolist(), new.tolist(), strict=True))
        self._has_changed = True

    def changed(self) -> bool:
        """Whether anything has arrived since this was asked last."""
        changed, self._has_changed = self._has_changed, False
        return changed

    def wait(self, access: Access, phase: Array, acquires: bool) -> Array:
        """Whether the phase [b, W, 32] (0 or 1) of each lane has ended."""
        index, on = self._machine.shared.places(access)
        self._land_for(index[on])
        self._machine.bulk.land_for(index[on])
        self._touch(access, index, on, wait=True)
        word = self._machine.shared.gather(access)
        good = (word >> np.uint64(MARK)) == 1
        good = np.broadcast_to(good, on.shape)
        self._fault("invalid-barrier", access, _NONE, on, ~good[on])
        current = word >> np.uint64(PHASE) & np.uint64(1)
        ended: Array = np.broadcast_to((current != phase) | ~good, on.shape)
        waits = on & ~ended
        _, before = self._waits.get(access.at, (access, waits))
        self._waits[access.at] = access, (before & ~(on & ended)) | waits
        self._machine.timeline.waits(access, index, on & ended)
        if acquires and (seen := on & ended).any():
            self._learn(index, seen)
        return ended

    # --- copies that signal -------------------------------------------------------------

    def exist(self, words: Array) -> Array:
        """Whether there is an mbarrier at each of these places."""
        memory = self._machine.shared.by_width[WIDTH].reshape(-1)
        good: Array = (memory[words] >> np.uint64(MARK)) == 1
        return good

    def may_end(self, words: Array) -> Array:
        """Whether only bytes are missing: nobody is awaited any more in this phase."""
        found: Array = self.exist(words) & (_pending(self._words()[words]) == 0)
        return found

    def complete(self, words: Array, nbytes: int) -> None:
        """So many bytes have come at each of these words, which may repeat."""
        each, times = np.unique(words, return_counts=True)
        none = np.zeros(len(each), np.int64)
        self._change(self._words(), each, none, -nbytes * times, Arrival(), None)

    def phase(self, words: Array) -> Array:
        """The number of the present phase of each, counted from 0."""
        return np.array([self._phases.get(word, 0) for word in words.tolist()], np.int64)

    def tell_of_copies(self, words: Array, columns: Array, phases: Array) -> None:
        """Who sees these phases end knows what the copies of these agents wrote."""
        for word, column, phase in zip(
            words.tolist(), columns.tolist(), phases.tolist(), strict=True
        ):
            if column < 0 or self._machine.hazards is None:
                continue
            told = self._told.get(word)
            if told is None:
                told = np.zeros(self._machine.hazards.clocks.seen.shape[-1], np.int64)
                self._told[word] = told
            told[column] = max(int(told[column]), phase + 1)

    def _words(self) -> Array:
        return self._machine.shared.by_width[WIDTH].reshape(-1)

    # --- copies that arrive -------------------------------------------------------------

    def track(self, access: Access, increment: bool) -> None:
        """The mbarrier hears of it when the copies land that each lane has issued so far."""
        if increment:
            self.arrive(access, Arrival(count=-1, releases=False))
        _, on = self._machine.shared.places(access)
        self._tracked.append(_Tracked(access, on.copy(), self._machine.copies.issued))
        self.copies_landed()

    def copies_landed(self) -> None:
        """Arrives for the lanes whose copies have all landed by now."""
        copies = self._machine.copies
        for one in self._tracked:
            due = one.lanes & ~copies.flying(one.copies, one.lanes)
            if due.any():
                one.lanes = one.lanes & ~due
                self.arrive(_only(one.access, due), Arrival(count=1))
        self._tracked = [one for one in self._tracked if one.lanes.any()]

    def _land_for(self, words: Array) -> None:
        """Lands copies that who looks at these words may wait for: the latest moment for it."""
        if not self._tracked:
            return
        machine = self._machine
        for one in self._tracked:
            index, _ = machine.shared.places(one.access)
            lanes = one.lanes & np.isin(index, words)
            if lanes.any():
                machine.copies.land(machine.shared, one.copies, lanes)
        self.copies_landed()

    # --- order and findings -------------------------------------------------------------

    def deadlock(self, lanes: Array) -> bool:
        """Reports who of these lanes waits here for good; False where nobody does."""
        found = False
        for at, (access, waiting) in self._waits.items():
            stuck = np.argwhere(waiting & lanes)
            if len(stuck):
                found = True
                block, warp, lane = (int(i) for i in stuck[0])
                where = int(np.broadcast_to(access.address, self._machine.full)[block, warp, lane])
                row = self._machine.shared.by_width[WIDTH][block]
                what = f"{len(stuck)} lanes wait at the mbarrier at {where:#x}"
                what += f", {state(int(row[where // WIDTH]))}"
                if ended := self._phases.get(block * len(row) + where // WIDTH):
                    what += f"; {ended} of its phases have ended"
                self._machine.fault_at("deadlock", at, what, block, warp, lane, where)
        return found

    def _touch(self, access: Access, index: Array, on: Array, wait: bool) -> None:
        if self._machine.hazards is not None:
            self._machine.hazards.mbarrier(access, wait)
            self.inits.check(access, index, on)

    def _tell(self, access: Access, index: Array, on: Array) -> None:
        """What these warps have done lies before the end of the phase."""
        if self._machine.hazards is None:
            return
        clocks = self._machine.hazards.clocks
        clocks.fence(on)
        for block, warp, word in _warps(index, on):
            row = clocks.telling(block, warp)
            if row is not None:
                told = self._told.get(word)
                self._told[word] = row if told is None else np.maximum(told, row)

    def _learn(self, index: Array, seen: Array) -> None:
        if self._machine.hazards is None:
            return
        clocks, heard = self._machine.hazards.clocks, False
        for block, warp, word in _warps(index, seen):
            told = self._ended.get(word, _NOTHING)
            if told.size:
                clocks.hear(block, warp, told)
                heard = True
        if heard:
            clocks.learn(seen)

    def _fault(self, kind: str, access: Access, why: str, on: Array, bad: Array) -> None:
        """Reports the first of the lanes `on` for which `bad` holds."""
        if bad.any():
            lanes = on.copy()
            lanes[on] = bad
            block, warp, lane = (int(i) for i in np.argwhere(lanes)[0])
            where = int(np.broadcast_to(access.address, on.shape)[block, warp, lane])
            self._machine.fault_at(kind, access.at, why.format(where), block, warp, lane)


_NOTHING: Array = np.zeros(0, np.int64)


def _pending(words: Array) -> Array:
    return pending_of(words).astype(np.int64)


def _only(access: Access, lanes: Array) -> Access:
    address = np.broadcast_to(access.address, lanes.shape)
    return replace(access, address=address, active=lanes, cells=None)


def _grouped(flat: Array) -> tuple[Array, Array, Array]:
    """The different words; of each lane which it is, and how many lanes come to it before."""
    words, group = np.unique(flat, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(words)))
    rank = np.empty(len(flat), np.int64)
    rank[order] = np.arange(len(flat)) - starts[group[order]]
    return words, group, rank


def _warps(index: Array, on: Array) -> list[tuple[int, int, int]]:
    """Block, warp and word, each once."""
    block, warp, lane = np.nonzero(on)
    rows = np.unique(np.stack([block, warp, index[block, warp, lane]], 1), axis=0)
    return [(one, who, word) for one, who, word in rows.tolist()]
