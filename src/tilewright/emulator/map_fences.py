"""Tensor maps that a kernel makes or changes in global memory, and who may use them.

Copies read a map through a proxy of its own. What threads wrote of one reaches it by a release
behind that, tensormap.cp_fenceproxy or fence.proxy.tensormap::generic.release, and an acquire of
the map, fence.proxy.tensormap::generic.acquire, in each block that uses it. PTX ISA, "Memory
Consistency Model: Proxies". Here copies take the map as it is; a missing fence is a finding.
Who wrote a map, and when, is what the arrays' shadow says of its cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.global_shadow import writers
from tilewright.emulator.hazards import Hazards
from tilewright.emulator.shadow import NOBODY
from tilewright.emulator.tensor_tokens import USED_BYTES

if TYPE_CHECKING:
    from tilewright.emulator.bulk_issue import Issue
    from tilewright.emulator.machine import Machine

_CELL = 4  # bytes of an array that are looked at together
_UNRELEASED = (
    "the kernel wrote its tensor map at {:#x}, and no fence.proxy.tensormap::generic.release of "
    "that block (or tensormap.cp_fenceproxy, which is one) followed: the copy may go by what was "
    "there before"
)
_UNACQUIRED = (
    "the kernel wrote its tensor map at {:#x}, and no fence.proxy.tensormap::generic.acquire of it "
    "lies before this in its block: the copy may go by what was there before"
)


@dataclass(frozen=True, slots=True)
class _Acquired:
    """What a warp of a block acquired: who had written the map then, and its own period."""

    written: Array
    period: int


class MapFences:
    """Of a machine. `released` is the launch's: block id → periods [W] before a release."""

    def __init__(self, machine: Machine, released: dict[int, Array]) -> None:
        self._machine, self._released = machine, released
        self._acquired: dict[tuple[int, int], dict[int, _Acquired]] = {}  # block, address → by warp

    def release(self, mask: Mask) -> None:
        """Of all that these warps wrote so far, or know that others of their block wrote."""
        machine, hazards = self._machine, self._machine.hazards
        if hazards is None:
            return
        hazards.fence(mask)  # ends their periods
        for block, warp in self._warps(mask):
            first = block % machine.peers * machine.warps
            known = hazards.clocks.seen[block, warp, first : first + machine.warps].copy()
            known[warp] = self._period(hazards, block, warp)
            one = int(machine.ids[block])
            before = self._released.get(one)
            self._released[one] = known if before is None else np.maximum(before, known)

    def acquire(self, address: Array, mask: Mask) -> None:
        """These lanes [B, W, 32] may use the maps at these addresses as they are now."""
        hazards = self._machine.hazards
        if hazards is None:
            return
        hazards.fence(mask)
        full = self._machine.full
        everywhere, lanes = np.broadcast_to(address, full), self._lanes(mask)
        for block, warp in self._warps(mask):
            for one in np.unique(everywhere[block, warp][lanes[block, warp]]).tolist():
                written = self._written(hazards, one)
                if written is not None:
                    by_warp = self._acquired.setdefault((block, one), {})
                    by_warp[warp] = _Acquired(written, self._period(hazards, block, warp))

    def check(self, issue: Issue, address: int, lanes: Array) -> None:
        """Reports lanes [n] of an instruction that use a map too early."""
        hazards = self._machine.hazards
        written = None if hazards is None else self._written(hazards, address)
        if hazards is None or written is None:
            return
        allocation = self._machine.memory.nearest(address)
        assert allocation is not None  # it has been written there
        where = address - allocation.base + np.arange(0, USED_BYTES, _CELL)
        early = np.zeros(len(lanes), bool)
        for place in np.flatnonzero(lanes).tolist():
            block, warp = int(issue.who.block[place]), int(issue.who.warp[place])
            early[place] = not self._has(hazards, block, warp, address, written)
            same = issue.who.of(np.full(len(where), place))
            hazards.array_copy(allocation, issue.at, where, _CELL, same, write=False)
        if not self._is_released(written):
            issue.fault("proxy-fence", _UNRELEASED.format(address), lanes)
        else:
            issue.fault("proxy-fence", _UNACQUIRED.format(address), early)

    def _written(self, hazards: Hazards, address: int) -> Array | None:
        """Who wrote the cells of the map last; None where nobody did in this launch."""
        allocation = self._machine.memory.nearest(address)
        known = None if allocation is None else hazards.arrays.tables.get(allocation.number)
        if allocation is None or known is None:
            return None
        size, table = known
        first = (address - allocation.base) // size
        written = table.written[first : first + USED_BYTES // size]
        return written.copy() if (written != NOBODY).any() else None

    def _is_released(self, written: Array) -> bool:
        instructions = self._machine.program.kernel.instructions
        for block, warp, period, at in writers(written[written != NOBODY]):
            if instructions[min(at, len(instructions) - 1)].opcode.startswith("tensormap.cp_"):
                continue  # a fence of its own
            known = self._released.get(block)
            if known is None or period >= known[warp]:
                return False
        return True

    def _has(self, hazards: Hazards, block: int, warp: int, address: int, written: Array) -> bool:
        """Whether an acquire of what is there, by any warp of the block, lies before now."""
        return any(
            np.array_equal(known.written, written)
            and (who == warp or self._knows(hazards, block, warp, who, known.period))
            for who, known in self._acquired.get((block, address), {}).items()
        )

    def _knows(self, hazards: Hazards, block: int, warp: int, other: int, period: int) -> bool:
        here, who = np.array([block]), np.array([warp])
        column = hazards.clocks.column(here, np.array([other]))
        return bool(hazards.clocks.before(here, who, column, np.array([period]))[0])

    def _period(self, hazards: Hazards, block: int, warp: int) -> int:
        periods, _ = hazards.clocks.now(np.array([block]), np.array([warp]))
        return int(periods[0])

    def _lanes(self, mask: Mask) -> Array:
        machine = self._machine
        return ~machine.absent if mask is None else np.broadcast_to(mask, machine.full)

    def _warps(self, mask: Mask) -> list[tuple[int, int]]:
        """Those that have an active lane."""
        some = np.logical_or.reduce(self._lanes(mask), axis=-1)
        return [(block, warp) for block, warp in np.argwhere(some).tolist()]
