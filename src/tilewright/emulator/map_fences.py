"""Tensor maps that a kernel makes or changes in global memory, and who may use them.

Copies read a map through a proxy of its own. What threads wrote of one reaches it by a release
behind the change, tensormap.cp_fenceproxy or fence.proxy.tensormap::generic.release, and an acquire
of the map, fence.proxy.tensormap::generic.acquire, in each block that uses it. PTX ISA, "Memory
Consistency Model: Proxies". Here copies take the map as it is; a missing fence is a finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.tensormap import MAP_BYTES

if TYPE_CHECKING:
    from tilewright.emulator.bulk_issue import Issue
    from tilewright.emulator.machine import Machine

_CELL = 4  # bytes of an array that are looked at together
_UNRELEASED = (
    "the kernel changed its tensor map at {:#x}, and no fence.proxy.tensormap::generic.release (or "
    "tensormap.cp_fenceproxy, which is one) followed: the copy may go by what was there before"
)
_UNACQUIRED = (
    "the kernel changed its tensor map at {:#x}, and no fence.proxy.tensormap::generic.acquire of "
    "it lies before this in its block: the copy may go by what was there before"
)


@dataclass(slots=True)
class MapChange:
    """The last change of one map of a launch."""

    number: int  # of the changes at this address
    machine: Machine  # and the warp of it that did it, by column, and its period
    block: int
    column: int
    period: int
    released: bool


@dataclass(frozen=True, slots=True)
class _Acquired:
    """The change that a warp of a block knows of, and since which of its periods."""

    number: int
    period: int


class MapFences:
    """Of a machine. `changes` are those of the launch, by address."""

    def __init__(self, machine: Machine, changes: dict[int, MapChange]) -> None:
        self._machine, self._changes = machine, changes
        self._acquired: dict[tuple[int, int], dict[int, _Acquired]] = {}  # block, address → by warp

    def changed(self, address: int, block: int, warp: int, released: bool) -> None:
        """This warp wrote the map at an address of global memory."""
        if self._machine.hazards is None:
            return
        column, period = self._now(block, warp)
        before = self._changes.get(address)
        number = 1 if before is None else before.number + 1
        self._changes[address] = MapChange(number, self._machine, block, column, period, released)

    def release(self, mask: Mask) -> None:
        """All changes that these warps made, or that they know of."""
        if self._machine.hazards is None:
            return
        for block, warp in self._warps(mask):
            for change in self._changes.values():
                if change.machine is self._machine and not change.released:
                    change.released = self._knows(block, warp, change.column, change.period)

    def acquire(self, address: Array, mask: Mask) -> None:
        """These lanes [B, W, 32] may use the maps at these addresses as they are now."""
        if self._machine.hazards is None or not self._changes:
            return
        everywhere = np.broadcast_to(address, self._machine.full)
        for block, warp in self._warps(mask):
            on = (
                slice(None)
                if mask is None
                else np.broadcast_to(mask, everywhere.shape)[block, warp]
            )
            for one in np.unique(everywhere[block, warp][on]).tolist():
                if (change := self._changes.get(one)) is not None:
                    _, period = self._now(block, warp)
                    by_warp = self._acquired.setdefault((block, one), {})
                    by_warp[warp] = _Acquired(change.number, period)

    def check(self, issue: Issue, address: int, lanes: Array) -> None:
        """Reports lanes [n] of an instruction that use the map too early."""
        change = self._changes.get(address)
        hazards = self._machine.hazards
        if change is None or hazards is None:
            return
        early = np.zeros(len(lanes), bool)
        allocation = self._machine.memory.nearest(address)
        assert allocation is not None  # it has been changed there
        where = address - allocation.base + np.arange(0, MAP_BYTES, _CELL)
        for place in np.flatnonzero(lanes).tolist():
            who = issue.who
            early[place] = not self._has(
                int(who.block[place]), int(who.warp[place]), address, change
            )
            same = who.of(np.full(len(where), place))
            hazards.array_copy(allocation, issue.at, where, _CELL, same, write=False)
        if not change.released:
            issue.fault("proxy-fence", _UNRELEASED.format(address), lanes)
        else:
            issue.fault("proxy-fence", _UNACQUIRED.format(address), early)

    def _has(self, block: int, warp: int, address: int, change: MapChange) -> bool:
        """Whether an acquire of the change by any warp of the block lies before now."""
        return any(
            known.number == change.number
            and self._knows(block, warp, self._column(block, who), known.period)
            for who, known in self._acquired.get((block, address), {}).items()
        )

    def _knows(self, block: int, warp: int, column: int, period: int) -> bool:
        assert self._machine.hazards is not None  # the callers asked
        if self._column(block, warp) == column:
            return True
        clocks = self._machine.hazards.clocks
        here, who = np.array([block]), np.array([warp])
        return bool(clocks.before(here, who, np.array([column]), np.array([period]))[0])

    def _column(self, block: int, warp: int) -> int:
        assert self._machine.hazards is not None
        return int(self._machine.hazards.clocks.column(np.array(block), np.array(warp)))

    def _now(self, block: int, warp: int) -> tuple[int, int]:
        assert self._machine.hazards is not None
        periods, _ = self._machine.hazards.clocks.now(np.array([block]), np.array([warp]))
        return self._column(block, warp), int(periods[0])

    def _warps(self, mask: Mask) -> list[tuple[int, int]]:
        """Those that have an active lane."""
        machine = self._machine
        lanes = ~machine.absent if mask is None else np.broadcast_to(mask, machine.full)
        return [(block, warp) for block, warp in np.argwhere(lanes.any(-1)).tolist()]
