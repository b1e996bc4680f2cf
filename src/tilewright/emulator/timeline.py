"""Producers and consumers by the mbarriers they meet at: what happened in which phase.

A step is one that the emulator took, and no time: the order is one that the program allows, not
one that a GPU would have. The first cluster of a launch is followed, up to a number of events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.mbarrier_inits import WIDTH

if TYPE_CHECKING:
    from tilewright.emulator.access import Access
    from tilewright.emulator.machine import Machine

MOST_EVENTS = 4096


@dataclass(frozen=True, slots=True)
class Event:
    """What happened at an mbarrier.

    kind     "copy" (a bulk copy that will signal it is issued), "arrive", "end" (of the phase),
             "pass" (a warp that has waited goes on)
    barrier  its name, as "full, byte 8", in the block `of`
    phase    counted from 0; of "pass" the phase that has ended
    """

    step: int
    kind: str
    barrier: str
    of: int
    phase: int
    block: int | None = None
    warp: int | None = None
    nbytes: int = 0
    line: int | None = None


@dataclass(slots=True)
class Timeline:
    """Of a launch; a machine of other blocks than the first cluster's records nothing."""

    events: list[Event] = field(default_factory=list)
    dropped: int = 0


class Recorder:
    """Writes the timeline of one machine's first cluster."""

    def __init__(self, machine: Machine, timeline: Timeline | None) -> None:
        self._machine, self._timeline = machine, timeline
        self._passed: dict[tuple[int, int, int], int] = {}  # block, warp, word → phase

    def issues(self, at: int, words: Array, nbytes: int) -> None:
        """Copies that will signal these mbarriers have been issued."""
        if self._timeline is not None:
            for word in self._own(words):
                self._add("copy", word, self._phase(word), at=at, nbytes=nbytes)

    def arrives(self, access: Access, index: Array, on: Array) -> None:
        if self._timeline is None:
            return
        peers = self._machine.peers
        lanes = np.argwhere(on[:peers]).tolist()
        for block, warp, word in sorted({(b, w, int(index[b, w, lane])) for b, w, lane in lanes}):
            if self._is_own(word):
                self._add("arrive", word, self._phase(word), block, warp, access.at)

    def ends(self, word: int, phases: int) -> None:
        """`phases` of this mbarrier have ended by now."""
        if self._timeline is not None and self._is_own(word):
            self._add("end", word, phases - 1)

    def waits(self, access: Access, index: Array, ended: Array) -> None:
        """Warps have seen that a phase has ended."""
        if self._timeline is None:
            return
        lanes = np.argwhere(ended[: self._machine.peers]).tolist()
        for block, warp, word in sorted({(b, w, int(index[b, w, lane])) for b, w, lane in lanes}):
            phase = self._phase(word) - 1
            if phase >= 0 and self._passed.get((block, warp, word)) != phase:
                self._passed[block, warp, word] = phase
                self._add("pass", word, phase, block, warp, access.at)

    def _phase(self, word: int) -> int:
        return int(self._machine.mbarriers.phase(np.array([word]))[0])

    def _is_own(self, word: int) -> bool:
        per_row = self._machine.shared.bytes.shape[1] // WIDTH
        return word // per_row < self._machine.peers

    def _own(self, words: Array) -> list[int]:
        return [word for word in words.tolist() if self._is_own(word)]

    def _add(
        self,
        kind: str,
        word: int,
        phase: int,
        block: int | None = None,
        warp: int | None = None,
        at: int | None = None,
        nbytes: int = 0,
    ) -> None:
        timeline, machine = self._timeline, self._machine
        assert timeline is not None  # the callers asked
        if len(timeline.events) >= MOST_EVENTS:
            timeline.dropped += 1
            return
        row, place = divmod(word * WIDTH, machine.shared.bytes.shape[1])
        name = machine.findings.naming.shared_place(place) or f"{place:#x}"
        line = None if at is None else machine.program.kernel.instructions[at].place.line
        of = machine.findings.block_id(row)
        who = None if block is None else machine.findings.block_id(block)
        timeline.events.append(Event(machine.steps, kind, name, of, phase, who, warp, nbytes, line))
