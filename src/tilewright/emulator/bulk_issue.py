"""What a bulk instruction of some lanes asks for, checked and sorted into copies of one size.

A lane whose target or source cannot be is reported. Its bytes still arrive at the mbarrier, as
poison or nowhere, so that one fault does not show as a deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.async_shadow import Issuers, Ticket
from tilewright.emulator.bulk import End, Grouped, Signalled
from tilewright.emulator.bulk_ends import PoisonEnd, RunEnd, SharedEnd, Update
from tilewright.emulator.cluster_space import RANK_SHIFT
from tilewright.emulator.compiler import PARAM_BASE, SHARED_WINDOW, WINDOW_BYTES, Fetch
from tilewright.emulator.counters import Tally
from tilewright.emulator.mbarrier_inits import WIDTH
from tilewright.emulator.tensor_box import CHUNK, Box, Traffic, traffic_of
from tilewright.errors import InputError
from tilewright.tensormap import MAP_ALIGNMENT, MAP_BYTES

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine
    from tilewright.emulator.memory import Allocation

_OFFSET = (1 << RANK_SHIFT) - 1
_TENSOR_ALIGNMENT = 128  # of a box in shared memory
MOST_BYTES = (1 << 20) - CHUNK  # of a copy that an mbarrier counts


@dataclass(frozen=True)
class Issue:
    """One execution of an instruction: the lanes that issue it, one after the other [n]."""

    machine: Machine
    at: int
    who: Issuers

    @classmethod
    def of(cls, machine: Machine, at: int, mask: Mask) -> Issue:
        lanes = ~machine.absent if mask is None else np.broadcast_to(mask, machine.full)
        block, warp, lane = np.nonzero(lanes)
        return cls(machine, at, Issuers(block, warp, lane, block))

    def __len__(self) -> int:
        return len(self.who.block)

    def some(self, which: Array) -> Issue:
        return replace(self, who=self.who.of(which))

    def values(self, fetch: Fetch) -> Array:
        """Of an operand in each lane, as int64."""
        full = np.broadcast_to(fetch(self.machine.regs), self.machine.full)
        found: Array = full[self.who.block, self.who.warp, self.who.lane].astype(np.int64)
        return found

    def fault(self, kind: str, what: str, bad: Array) -> None:
        """Reports the first lane for which `bad` [n] holds."""
        if bad.any():
            place = int(np.flatnonzero(bad)[0])
            who = (self.who.block[place], self.who.warp[place], self.who.lane[place])
            self.machine.fault_at(kind, self.at, what, *(int(i) for i in who))

    # --- addresses ----------------------------------------------------------------------

    def shared(self, address: Array) -> tuple[Array, Array]:
        """Rows and offsets of addresses of shared memory in the cluster."""
        peers, own = self.machine.peers, self.who.block
        inside = (address >= SHARED_WINDOW) & (address < SHARED_WINDOW + WINDOW_BYTES)
        address = np.where(inside, address - SHARED_WINDOW, address)
        number = address >> RANK_SHIFT
        remote = (number > 0) & (number <= peers)
        rows = np.where(remote, own - own % peers + number - 1, own)
        return rows, np.where(remote, address & _OFFSET, address)

    def usable(self, rows: Array, offset: Array, nbytes: int, alignment: int, does: str) -> Array:
        """Which targets or sources in shared memory can be; the others are reported."""
        machine = self.machine
        outside = (offset < 0) | (offset + nbytes > machine.shared.nbytes)
        size = f"a block has {machine.shared.nbytes:,} bytes"
        self.fault("out-of-bounds", f"it {does} {nbytes:,} bytes of shared memory beyond its end "
                   f"({size})", outside)  # fmt: skip
        crooked = (offset % alignment != 0) & ~outside
        self.fault("misaligned", f"it {does} shared memory at an address that is no multiple of "
                   f"{alignment}", crooked)  # fmt: skip
        ended: Array = np.logical_and.reduce(machine.exited, axis=(1, 2))
        gone = ended[rows]
        self.fault("ended-peer", f"it {does} the shared memory of a block that has ended", gone)
        good: Array = ~(outside | crooked | gone)
        return good

    def boxes(self, where: Array, dims: int) -> Iterator[tuple[Array, Box | None]]:
        """The lanes [k] of each tensor map; without a box where there is none."""
        for address in np.unique(where).tolist():
            which = np.flatnonzero(where == address)
            yield which, self._box(address, where == address, dims)

    def _box(self, address: int, lanes: Array, dims: int) -> Box | None:
        machine = self.machine
        known = machine.box_at.get(address)
        if known is None:
            in_params = PARAM_BASE <= address < PARAM_BASE + machine.params.size
            raw = None if address % MAP_ALIGNMENT else _raw_map(machine, address)
            known = self._box_of(raw, address, lanes)
            if known is None:
                return None
            if in_params:  # parameters stay what they are
                machine.box_at[address] = known
            else:
                machine.map_fences.check(self, address, lanes)
        if known.map.rank != dims:
            self.fault("invalid-copy", f"its tensor map has {known.map.rank} dimensions, "
                       f"the instruction {dims}", lanes)  # fmt: skip
            return None
        return known

    def _box_of(self, raw: bytes | None, address: int, lanes: Array) -> Box | None:
        """The boxes of the map that these bytes are; reported where they are none."""
        machine = self.machine
        if raw is not None and (known := machine.box_of.get(raw)) is not None:
            return known
        try:
            found = None if raw is None else machine.memory.maps.find(raw)
        except InputError as error:
            self.fault("invalid-copy", str(error).rstrip("."), lanes)
            return None
        if raw is None or found is None:
            self.fault("invalid-copy", f"no tensor map lies at {address:#x}: pass it as a "
                       "__grid_constant__ parameter or in global memory, aligned to 64 bytes",
                       lanes)  # fmt: skip
            return None
        owner = machine.memory.nearest(int(found.base)) if isinstance(found.base, int) else None
        if owner is None:
            self.fault("invalid-copy", "the tensor of its map lies in no array", lanes)
            return None
        box = machine.box_of[raw] = Box(found, owner)
        return box

    def runs(self, address: Array, nbytes: int, does: str) -> tuple[RunEnd, Array]:
        """Runs of global memory, and which of them can be."""
        memory = self.machine.memory
        found: dict[int, Allocation] = {}
        good = np.zeros(len(address), bool)
        first = np.zeros(len(address), np.int64)
        for place, one in enumerate(address.tolist()):
            owner = memory.nearest(one)
            offset = 0 if owner is None else one - owner.base
            inside = owner is not None and offset >= 0 and offset + nbytes <= owner.nbytes
            good[place] = inside and offset % CHUNK == 0
            first[place] = offset // CHUNK
            if owner is not None:
                found[place] = owner
            if not good[place]:
                bad = np.arange(len(address)) == place
                if inside:
                    what = f"it {does} global memory at an address that is no multiple of {CHUNK}"
                    self.fault("misaligned", what, bad)
                else:
                    where = self.machine.findings.naming.outside(one, nbytes)
                    self.fault("out-of-bounds", f"it {does} {nbytes:,} bytes {where}", bad)
        return RunEnd(found, first, nbytes // CHUNK), good

    # --- copies into shared memory ------------------------------------------------------

    def load(
        self,
        source: End,
        readable: Array,
        into: Array,
        places: Array | None,
        word: Array,
        nbytes: int,
        cta_mask: Array | None = None,
        update: Update | None = None,
        tickets: list[Ticket | None] | None = None,
        alignment: int = _TENSOR_ALIGNMENT,
    ) -> None:
        """Copies from n sources, of which `readable` ones are there, to addresses `into` [n].

        `places` are the chunks that a target at offset 0 takes, in order; None: one after the
        other. `word` [n] are the addresses of the mbarriers. `cta_mask` [n] has the targets' ranks.
        """
        item, rows = np.arange(len(self)), self.who.block
        target, offset = self.shared(into)
        signal, at_word = self.shared(word)
        if cta_mask is not None:
            item, rows = self._multicast(cta_mask)
            target = signal = rows
        else:
            rows = target
        many = self.some(item)
        many = replace(many, who=replace(many.who, rows=rows))
        offset, at_word = offset[item], at_word[item]
        if cta_mask is None:
            self.fault("invalid-copy", "its target and its mbarrier are of different blocks",
                       target != signal)  # fmt: skip
        good = many.usable(rows, offset, nbytes, alignment, "fills")
        known = many.known_words(signal if cta_mask is not None else signal[item], at_word)
        words = rows * (self.machine.shared.bytes.shape[1] // WIDTH) + at_word // WIDTH
        self.machine.timeline.issues(many.at, words, nbytes)
        for which in (np.flatnonzero(good & known), np.flatnonzero(~good & known)):
            if not which.size:
                continue
            fine = bool(good[which[0]])
            here = offset[which]
            end: End = PoisonEnd(nbytes // CHUNK)
            if fine:
                chunks = here[:, None] // CHUNK + np.arange(nbytes // CHUNK)
                end = SharedEnd(rows[which], chunks if places is None else places[item[which]])
            span = [(int(one), int(one) + nbytes) for one in here]
            mixed = source if readable.all() else _Mixed(source, readable, nbytes // CHUNK)
            who = many.who.of(which)
            if fine and self.machine.hazards is not None:
                for one in dict.fromkeys(span):
                    same = np.array([each == one for each in span])
                    self.machine.hazards.beside.writes(self.at, who.of(same), one)
            self.machine.bulk.signal(
                Signalled(
                    self.at, mixed, end, item[which], who, words[which],
                    np.ones(len(which), bool), span if fine else [(0, 0)] * len(which), nbytes,
                    np.ones(len(which), bool), update,
                    None if tickets is None else [tickets[i] for i in item[which].tolist()],
                )
            )  # fmt: skip

    def _multicast(self, cta_mask: Array) -> tuple[Array, Array]:
        """Of each target the lane that issues it, and the row."""
        peers = self.machine.peers
        self.fault("invalid-copy", f"its mask names blocks beyond the {peers} of the cluster",
                   cta_mask >> peers != 0)  # fmt: skip
        named = (cta_mask[:, None] >> np.arange(peers) & 1).astype(bool)
        item, rank = np.nonzero(named)
        own = self.who.block[item]
        return item, own - own % peers + rank

    def known_words(self, rows: Array, offset: Array, through_copies: bool = True) -> Array:
        """Which mbarriers there are; that those who copy know of them is looked at, too.

        What signals them goes `through_copies`, or else through the generic proxy.
        """
        machine = self.machine
        per_row = machine.shared.bytes.shape[1] // WIDTH
        inside = (offset >= 0) & (offset < per_row * WIDTH) & (offset % WIDTH == 0)
        words = np.where(inside, rows * per_row + offset // WIDTH, 0)
        exists: Array = inside & machine.mbarriers.exist(words)
        first = int(offset[np.flatnonzero(~exists)[0]]) if not exists.all() else 0
        self.fault("invalid-barrier", f"no mbarrier lies at {first:#x}: mbarrier.init has not run, "
                   "or something was stored over it", ~exists)  # fmt: skip
        unseen, unfenced = machine.mbarriers.inits.unknown(self.who, words)
        self.fault("race", "it signals an mbarrier whose mbarrier.init nothing orders before it "
                   "(a barrier of all that use it would)", unseen & exists)  # fmt: skip
        if through_copies:
            self.fault("proxy-fence", "it signals an mbarrier that no fence.mbarrier_init or "
                       "fence.proxy.async has made known to copies since mbarrier.init",
                       unfenced & exists)  # fmt: skip
        return exists

    # --- copies out of shared memory ----------------------------------------------------

    def store(
        self,
        source: Array,
        places: Array | None,
        into: End,
        writable: Array,
        nbytes: int,
        update: Update | None = None,
        alignment: int = _TENSOR_ALIGNMENT,
        watch: Callable[[Array], None] | None = None,
    ) -> None:
        """Copies of n sources at addresses `source` of one's own memory to `into`."""
        rows, offset = self.shared(source)
        good = self.usable(rows, offset, nbytes, alignment, "reads") & writable
        which = np.flatnonzero(good)
        if not which.size:
            return
        here = offset[which]
        chunks = here[:, None] // CHUNK + np.arange(nbytes // CHUNK)
        end = SharedEnd(rows[which], chunks if places is None else places[which])
        who = replace(self.who.of(which), rows=rows[which])
        tickets = self.some(which).reads(rows[which], here, nbytes)
        self.machine.bulk.group(
            Grouped(
                self.at, end, _Some(into, which), who, self.machine.bulk.open_group(who),
                np.zeros(len(which), np.int64), None, update, tickets,
                None if watch is None else lambda done: watch(which[done]),
            )
        )  # fmt: skip

    def reads(
        self,
        rows: Array,
        offset: Array,
        nbytes: int,
        columns: tuple[tuple[int, ...], ...] | None = None,
    ) -> list[Ticket | None]:
        """Tells the shadow that these runs of shared memory are read from now on."""
        hazards = self.machine.hazards
        found: list[Ticket | None] = [None] * len(rows)
        if hazards is None:
            return found
        for one in np.unique(offset).tolist():
            for place in _rounds(np.flatnonzero(offset == one), rows):
                who = replace(self.who.of(place), rows=rows[place])
                names = None if columns is None else tuple(columns[i] for i in place.tolist())
                span = (one, one + nbytes)
                every = np.arange(*span, CHUNK)
                ticket = hazards.beside.async_read(self.at, who, (span,), names, every)
                for at, number in enumerate(place.tolist()):
                    found[number] = _one(ticket, at)
        return found

    # --- counts -------------------------------------------------------------------------

    def count(self, traffic: Traffic, nbytes: int, receivers: int) -> None:
        """What the memory's side sees of these copies, and shared memory: so many boxes or runs
        of `nbytes`, which may be more than there are copies."""
        ideal = -(-traffic.nbytes // 32)
        tally = Tally(len(self), 0, 0, traffic.sectors, ideal, traffic.nbytes)
        self.machine.counters.add(self.at, tally)
        extra = max(0, receivers - len(self)) * nbytes
        self.machine.trace.bulk.add(self.at, len(self), traffic, nbytes * receivers, extra)

    def count_runs(self, address: Array, nbytes: int, receivers: int) -> None:
        self.count(traffic_of(address, nbytes), nbytes, receivers)


@dataclass(frozen=True, slots=True)
class _Mixed:
    """Sources of which some cannot be read."""

    source: End
    readable: Array
    chunks: int
    _none: PoisonEnd = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_none", PoisonEnd(self.chunks))

    def read(self, machine: Machine, which: Array) -> Array:
        found = self._none.read(machine, which)
        good = self.readable[which]
        if good.any():
            found[good] = self.source.read(machine, which[good])
        return found

    def write(self, machine: Machine, which: Array, chunks: Array, update: Update | None) -> None:
        self.source.write(machine, which, chunks, update)


@dataclass(frozen=True, slots=True)
class _Some:
    """The targets numbered `which` of all that an instruction has."""

    end: End
    which: Array

    def read(self, machine: Machine, which: Array) -> Array:
        return self.end.read(machine, self.which[which])

    def write(self, machine: Machine, which: Array, chunks: Array, update: Update | None) -> None:
        self.end.write(machine, self.which[which], chunks, update)


def _one(ticket: Ticket, place: int) -> Ticket:
    """The part of a ticket for one of its rows."""
    names = next(names for names, places in ticket.groups if place in places)
    return Ticket(ticket.spans, ticket.rows[place : place + 1], ((names, np.zeros(1, int)),))


def _rounds(which: Array, rows: Array) -> Iterator[Array]:
    """Parts of `which` in which no row comes twice."""
    while which.size:
        _, first = np.unique(rows[which], return_index=True)
        yield which[first]
        which = np.delete(which, first)


def _raw_map(machine: Machine, address: int) -> bytes | None:
    """The bytes at an address of parameter or global memory."""
    offset = address - PARAM_BASE
    if 0 <= offset <= machine.params.size - MAP_BYTES:
        return machine.params[offset : offset + MAP_BYTES].tobytes()
    owner: Allocation | None = machine.memory.nearest(address)
    if owner is None or not 0 <= address - owner.base <= owner.nbytes - MAP_BYTES:
        return None
    return owner.by_width[1][address - owner.base :][:MAP_BYTES].tobytes()
