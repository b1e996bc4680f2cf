"""Bulk copies on their way: cp.async.bulk, cp.async.bulk.tensor and their reductions.

Each has its effect at the latest moment that the program allows. What signals an mbarrier lands
when somebody waits there and only its bytes are missing; what a group counts reads its source when
its thread waits for that, and writes when it waits for the whole, or when its block ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.async_shadow import Issuers, Ticket
from tilewright.emulator.bulk_ends import Update
from tilewright.emulator.mbarrier_inits import WIDTH

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine


class End(Protocol):
    """Where n copies of one size come from or go to, in chunks of 16 bytes [n, chunks]."""

    def read(self, machine: Machine, which: Array) -> Array: ...

    def write(self, machine: Machine, which: Array, chunks: Array, update: Update | None) -> None:
        """The copies numbered `which` [k] get chunks [k, chunks]."""


@dataclass(slots=True)
class Signalled:
    """Copies into shared memory. Of n sources there are m targets: several with multicast."""

    at: int
    source: End
    into: End  # m
    item: Array  # [m]: the source of each target
    who: Issuers  # m; rows are the targets'
    words: Array  # [m]: place of the mbarrier of each
    known: Array  # [m]: whether there is one
    span: list[tuple[int, int]]  # [m]: bytes of the target's memory
    nbytes: int
    pending: Array  # [m]
    update: Update | None = None
    tickets: list[Ticket | None] | None = None  # of the source, where it is shared memory


@dataclass(slots=True)
class Grouped:
    """Copies out of shared memory, counted by the groups of the threads that issued them."""

    at: int
    source: End
    into: End
    who: Issuers
    group: Array  # [n]
    stage: Array  # [n]: 0 = issued, 1 = the source has been read, 2 = done
    chunks: Array | None = None  # what has been read [n, chunks]
    update: Update | None = None
    tickets: list[Ticket | None] | None = None  # of the sources
    watch: Callable[[Array], None] | None = None  # tells the arrays' shadow that these [k] write


class BulkCopies:
    """Those of a chunk."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._signalled: list[Signalled] = []
        self._grouped: list[Grouped] = []
        self._over = np.zeros(machine.blocks, bool)
        self._open: Array | None = None  # [B, W, 32]: the group that new copies join

    @property
    def pending(self) -> bool:
        return bool(self._signalled or self._grouped)

    # --- issue --------------------------------------------------------------------------

    def signal(self, copy: Signalled) -> None:
        self._signalled.append(copy)

    def group(self, copy: Grouped) -> None:
        self._grouped.append(copy)

    def open_group(self, who: Issuers) -> Array:
        """The group that copies of these threads join [n]."""
        group: Array = self._groups()[who.block, who.warp, who.lane]
        return group

    def _groups(self) -> Array:
        if self._open is None:
            self._open = np.zeros(self._machine.full, np.int64)
        return self._open

    def commit(self, mask: Mask) -> None:
        groups = self._groups()
        groups += 1 if mask is None else np.broadcast_to(mask, groups.shape)

    # --- copies that signal an mbarrier -------------------------------------------------

    def land_for(self, words: Array) -> None:
        """Somebody waits at these words: what only their bytes keep from ending must come now."""
        if not self._signalled:
            return
        wanted = np.unique(words)
        wanted = wanted[self._machine.mbarriers.may_end(wanted)]
        if not wanted.size:
            return
        for copy in self._signalled:
            due = copy.pending & copy.known & np.isin(copy.words, wanted)
            if due.any():
                self._land(copy, np.flatnonzero(due))
        self._signalled = [copy for copy in self._signalled if copy.pending.any()]

    def _land(self, copy: Signalled, due: Array) -> None:
        machine = self._machine
        items, place = np.unique(copy.item[due], return_inverse=True)
        chunks = copy.source.read(machine, items)
        if len(items) != len(due) or bool((place != np.arange(len(due))).any()):
            chunks = chunks[place]
        copy.into.write(machine, due, chunks, copy.update)
        copy.pending[due] = False
        words = copy.words[due]
        phases = machine.mbarriers.phase(words)
        columns = self._agents(words)
        if machine.hazards is not None:
            for span, which in _by_span(copy.span, due):
                beside, here = machine.hazards.beside, np.searchsorted(due, which)
                beside.written(copy.who.rows[which], columns[here], phases[here], span)
            if copy.tickets is not None:
                for number in due.tolist():
                    if (ticket := copy.tickets[number]) is not None:
                        which = np.searchsorted(due, [number])
                        machine.hazards.beside.read_over(ticket, columns[which], phases[which])
        machine.mbarriers.tell_of_copies(words, columns, phases)
        machine.mbarriers.complete(words, copy.nbytes)

    def _agents(self, words: Array) -> Array:
        """The columns of the clocks that stand for the copies of each mbarrier, −1 for none."""
        machine = self._machine
        if machine.hazards is None:
            return np.full(len(words), -1)
        per_row = machine.shared.bytes.shape[1] // WIDTH
        row, word = words // per_row, words % per_row
        found = []
        for rank, place in zip((row % machine.peers).tolist(), word.tolist(), strict=True):
            column = machine.hazards.clocks.agent(rank, place)
            found.append(-1 if column is None else column)
        return np.array(found, np.int64)

    # --- copies that groups count -------------------------------------------------------

    def wait(self, pending: int, mask: Mask, read: bool) -> None:
        """All groups but the newest `pending` of each lane are done, or have `read` all."""
        if not self._grouped:
            return
        lanes = (
            self._machine.everyone if mask is None else np.broadcast_to(mask, self._machine.full)
        )
        groups = self._groups()
        for copy in self._grouped:
            who = (copy.who.block, copy.who.warp, copy.who.lane)
            due = lanes[who] & (copy.group < groups[who] - pending)
            self._advance(copy, due, 1 if read else 2)
        self._grouped = [copy for copy in self._grouped if (copy.stage < 2).any()]

    def _advance(self, copy: Grouped, due: Array, stage: int) -> None:
        machine = self._machine
        reads = np.flatnonzero(due & (copy.stage < 1))
        if reads.size:
            chunks = copy.source.read(machine, reads)
            if copy.chunks is None:
                copy.chunks = np.zeros((len(copy.stage), chunks.shape[1]), chunks.dtype)
            copy.chunks[reads] = chunks
            copy.stage[reads] = 1
            self._reads_are_over(copy, reads)
        if stage < 2:
            return
        writes = np.flatnonzero(due & (copy.stage == 1))
        if writes.size and copy.chunks is not None:
            if copy.watch is not None:
                copy.watch(writes)
            copy.into.write(machine, writes, copy.chunks[writes], copy.update)
            machine.memory.stores += 1
            copy.stage[writes] = 2

    def _reads_are_over(self, copy: Grouped, reads: Array) -> None:
        hazards = self._machine.hazards
        if hazards is None or copy.tickets is None:
            return
        for number in reads.tolist():
            if (ticket := copy.tickets[number]) is not None:
                column = hazards.clocks.column(copy.who.block[number], copy.who.warp[number])
                hazards.beside.read_over(ticket, column)

    # --- the end ------------------------------------------------------------------------

    def exits(self) -> None:
        """Blocks whose last thread has ended take their memory with them."""
        machine = self._machine
        if not self.pending:
            return
        ended: Array = np.logical_and.reduce(machine.exited, axis=(1, 2))
        over = ended & ~self._over
        if not over.any():
            return
        self._over = self._over | over
        for into in self._signalled:
            late = into.pending & over[into.who.rows]
            self._too_late(into.at, into.who, late, "it still fills", into.who.rows)
            into.pending = into.pending & ~late
        for out in self._grouped:
            gone = over[out.who.block]
            late = gone & (out.stage < 1)
            self._too_late(out.at, out.who, late, "it still reads", out.who.block)
            self._advance(out, gone, 2)
        self._signalled = [copy for copy in self._signalled if copy.pending.any()]
        self._grouped = [copy for copy in self._grouped if (copy.stage < 2).any()]

    def _too_late(self, at: int, who: Issuers, late: Array, does: str, rows: Array) -> None:
        if not late.any():
            return
        place = int(np.flatnonzero(late)[0])
        block = self._machine.findings.block_id(int(rows[place]))
        wait = "at its mbarrier" if "fills" in does else "with cp.async.bulk.wait_group.read 0"
        what = f"{does} the shared memory of block {block} when that ends: wait {wait} first"
        lane = (int(who.block[place]), int(who.warp[place]), int(who.lane[place]))
        self._machine.fault_at("copy-at-exit", at, what, *lane)


def _by_span(span: list[tuple[int, int]], which: Array) -> list[tuple[tuple[int, int], Array]]:
    """The numbers of each span."""
    found: dict[tuple[int, int], list[int]] = {}
    for number in which.tolist():
        found.setdefault(span[number], []).append(number)
    return [(one, np.array(numbers)) for one, numbers in found.items()]
