"""Lanes that must come together: a warp's collective instructions wait for those they name.

The instructions that take a member mask (shfl.sync, vote.sync, bar.warp.sync and their like), and
those that whole warps must execute (`.aligned`), or whole warpgroups of four warps (wgmma), start
when the lanes that they name are there.
Lanes that have ended, or that have nothing left but to end, are not waited for. Where the others
can no longer come, because they have ended on another path or wait for a barrier, the lanes that
are there go on without them, and that is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import LANES, Array
from tilewright.emulator.flow import (
    BasicBlock,
    member_mask,
    needs_warpgroups,
    needs_whole_warps,
)
from tilewright.emulator.ir import Immediate, Kernel

if TYPE_CHECKING:
    from tilewright.emulator.compiler import Compiler, Fetch
    from tilewright.emulator.machine import Machine

_FULL = 0xFFFF_FFFF
_WARPGROUP = 4  # warps
_BITS = np.arange(LANES, dtype=np.uint32)


@dataclass(frozen=True, slots=True)
class Meeting:
    """What a basic block needs before it may start. `members` None: every lane of the warp.

    With `warps` 4 it is every lane of a warpgroup.
    `guard` says which of the lanes that are there execute the instruction; None: all do.
    """

    at: int
    aligned: bool
    members: Fetch | None
    guard: Fetch | None
    warps: int = 1

    @property
    def whole(self) -> bool:
        return self.members is None and self.guard is None


def meetings_of(compiler: Compiler, kernel: Kernel, block: BasicBlock) -> list[Meeting]:
    """Of a block of `flow.cut`, in which no two instructions have different member masks."""
    found: list[Meeting] = []
    for at in range(block.first, block.last):
        instruction = kernel.instructions[at]
        aligned, mask = needs_whole_warps(instruction), member_mask(instruction)
        if (not aligned and mask is None) or any(it.aligned == aligned for it in found):
            continue
        whole = mask is None or (isinstance(mask, Immediate) and mask.value & _FULL == _FULL)
        fetch = None if whole or mask is None else compiler.source(mask, "b32")
        guard = instruction.guard
        holds = None if guard is None else compiler.source(guard, "pred")
        warps = _WARPGROUP if needs_warpgroups(instruction) else 1
        found.append(Meeting(at, aligned, fetch, holds, warps))
    return found


class Gather:
    """The lanes of a machine that wait for others of their warp, by basic block."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.waiting: dict[int, Array] = {}
        self._awaited: dict[int, Array] = {}  # the lanes that were absent when they began to wait

    def admit(self, number: int, lanes: Array) -> Array:
        """The lanes that may run this block now; the others wait here."""
        meetings = self._machine.program.meetings[number]
        if lanes is self._machine.everyone and all(it.whole for it in meetings):
            return lanes
        if number in self.waiting:
            lanes = lanes | self.waiting.pop(number)
        absent = self._absent(number, lanes)
        if not absent.any():
            self._start(number, lanes)
            return lanes
        waits = lanes & self._any(number, absent)
        self.waiting[number] = waits
        self._awaited[number] = self._awaited.get(number, self._machine.nobody) | absent
        lanes = lanes & ~waits
        self._start(number, lanes)
        return lanes

    def give_up(self) -> tuple[int, Array] | None:
        """A block and those of its lanes whose partners can no longer come: they are reported."""
        coming: Array = np.logical_or.reduce([self._machine.nobody, *self._machine.ready.values()])
        for number in sorted(self.waiting):
            lanes = self.waiting[number]
            hopeless = lanes & ~self._any(number, self._absent(number, lanes) & coming)
            if hopeless.any():
                del self.waiting[number]
                if (left := lanes & ~hopeless).any():
                    self.waiting[number] = left
                self._start(number, hopeless)
                return number, hopeless
        return None

    def _absent(self, number: int, lanes: Array) -> Array:
        """[B, W, 32]: lanes that the present ones need and that may still come."""
        machine = self._machine
        absent: Array = machine.nobody
        for meeting in machine.program.meetings[number]:
            absent = absent | (self._named(meeting, lanes) & ~lanes & ~machine.exited)
        if absent.any():
            absent = absent & ~self._leaving()
        return absent

    def _leaving(self) -> Array:
        """Lanes that have nothing left but to end."""
        ready, leaves = self._machine.ready, self._machine.program.leaves
        ending = [lanes for number, lanes in ready.items() if number in leaves]
        leaving: Array = np.logical_or.reduce([self._machine.nobody, *ending])
        return leaving

    def _named(self, meeting: Meeting, lanes: Array) -> Array:
        present = self._present(meeting, lanes)
        if meeting.members is None:
            return np.broadcast_to(_any(present, meeting.warps), lanes.shape)
        masks = np.broadcast_to(meeting.members(self._machine.regs), lanes.shape)
        masks = np.where(present, masks, np.uint32(0))
        return _has(np.bitwise_or.reduce(masks, axis=-1, keepdims=True))

    def _present(self, meeting: Meeting, lanes: Array) -> Array:
        """The lanes of those that are there which execute the instruction."""
        return lanes if meeting.guard is None else lanes & meeting.guard(self._machine.regs)

    def _start(self, number: int, lanes: Array) -> None:
        """Reports who starts without those it needs, or under a mask without itself."""
        machine, missed = self._machine, self._missed(number, lanes)
        if machine.hazards is None:
            return
        for meeting in machine.program.meetings[number]:
            present = self._present(meeting, lanes)
            absent = ~machine.absent if meeting.aligned else missed | lanes
            lost = absent & self._named(meeting, lanes) & ~present
            if lost.any():
                here = present & _any(lost, meeting.warps)
                machine.fault(_KIND[meeting.aligned], meeting.at, _missing(meeting, lost), here)
            if meeting.members is not None:
                masks = np.broadcast_to(meeting.members(machine.regs), lanes.shape)
                machine.fault("inactive-lane", meeting.at, _OUTSIDE, present & ~_has(masks))

    def _any(self, number: int, lanes: Array) -> Array:
        """[B, W, 1]: warps that have one of these lanes, or whose warpgroup has."""
        return _any(lanes, max(each.warps for each in self._machine.program.meetings[number]))

    def _missed(self, number: int, lanes: Array) -> Array:
        """Who was waited for and is not there: it ended on another path, or waits elsewhere."""
        if number not in self._awaited:
            return self._machine.nobody
        awaited = self._awaited[number] & self._any(number, lanes)
        self._awaited[number] = self._awaited[number] & ~awaited
        missed: Array = awaited & ~lanes
        return missed


_KIND = {True: "divergent-aligned", False: "inactive-lane"}
_OUTSIDE = "its member mask does not name the lane that executes it"


def _has(word: Array) -> Array:
    bits: Array = (word >> _BITS & np.uint32(1)).astype(bool)
    return bits


def _any(lanes: Array, warps: int) -> Array:
    """[B, W, 1]: warps of which some of so many beside each other have one of these lanes."""
    found: Array = np.logical_or.reduce(lanes, axis=-1)
    if warps > 1:
        blocks, count = found.shape
        padded = np.pad(found, ((0, 0), (0, -count % warps))).reshape(blocks, -1, warps)
        found = np.repeat(padded.any(-1), warps, axis=1)[:, :count]
    whole: Array = found[..., None]
    return whole


def _missing(meeting: Meeting, lost: Array) -> str:
    block, warp, lane = (int(i) for i in np.argwhere(lost)[0])
    more = int(lost[block, warp].sum()) - 1
    lanes = f"lane {lane} and {more} more" if more else f"lane {lane}"
    if meeting.warps > 1:
        lanes += f" of warp {warp}"
        return f"all warps of a warpgroup must execute it together, and {lanes} took another path"
    if meeting.aligned:
        return f"all lanes of a warp must execute it together, and {lanes} took another path"
    return f"its member mask names {lanes}, on another path"
