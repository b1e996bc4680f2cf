"""Operands of wgmma in shared memory, which are read when it completes.

`async_read` and `async_reads_done` are where these reads meet the watch over shared memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import LANES, Array
from tilewright.emulator.wgmma_descriptors import PIECE, pieces
from tilewright.emulator.wgmma_sums import WARPS, lanes_of

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine

_BARRIER = -1  # and below: numbers of barriers that no kernel names
_KEEP = 1024  # sets of accesses; a main loop repeats a few dozen


def async_read(machine: Machine, access: Access) -> Array:
    """What the access finds, [blocks, warps, lanes] of 16 bytes, as a read of its warps now."""
    return machine.shared.load(access)


def async_reads_done(machine: Machine, groups: Array) -> None:
    """Warpgroups [blocks, warpgroups] have waited for what they read: any of their warps may now
    tell others so, although the reads are recorded as those of all four.

    The watch takes it for a barrier of the four warps. A GPU does not: what they did themselves
    before the wait has no order by it, and a race of that kind is not found.
    """
    if machine.hazards is None:
        return
    for number in np.flatnonzero(groups.any(0)).tolist():
        one = np.zeros_like(groups)
        one[:, number] = groups[:, number]
        warps = lanes_of(one, machine.warps)[..., 0]
        machine.hazards.clocks.meet(one[:, number], warps, _BARRIER - number)


class SharedOperand:
    """One operand of one wgmma: descriptors [b, warpgroups], alike in all blocks where b is 1.

    `extent` is m or n, and `along` says that its elements lie along that.
    """

    def __init__(
        self, machine: Machine, at: int, descriptors: Array, extent: int, along: bool
    ) -> None:
        self._machine, self._at = machine, at
        self._descriptors, self._extent, self._along = descriptors, extent, along
        self._before: list[Array] = []

    @property
    def nbytes(self) -> int:
        """Of one warpgroup."""
        return 2 * PIECE * self._extent

    def remember(self, groups: Array) -> None:
        """Notes what these warpgroups would read now, to tell later whether it was changed."""
        shared = self._machine.shared
        self._before = [shared.gather(access) for access in self._accesses(groups)]

    def read(self, groups: Array) -> tuple[Array, Array]:
        """Words [blocks, warpgroups, …] and which warpgroups read something else than before.

        Words are 32 bits, [extent, 8] or along the extent [16, extent / 2].
        """
        machine, blocks, count = self._machine, *groups.shape
        parts = [async_read(machine, access) for access in self._accesses(groups)]
        lanes = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
        lanes = lanes[:, : WARPS * count].reshape(blocks, count, -1)
        shape = (16, self._extent // 2) if self._along else (self._extent, 8)
        words = np.ascontiguousarray(lanes).view(np.uint32).reshape(blocks, count, *shape)
        return words, self._changed(groups, parts)

    def _changed(self, groups: Array, parts: list[Array]) -> Array:
        changed: Array = np.zeros(groups.shape, bool)
        for old, new in zip(self._before, parts, strict=bool(self._before)):
            bits = (old.view("u8") != new.view("u8")).any(-1)
            if bits.any():
                inside = bits[:, : WARPS * groups.shape[1]]
                changed |= inside.reshape(*groups.shape, WARPS).any(-1)
        return changed & groups

    def _accesses(self, groups: Array) -> list[Access]:
        """Of all warps: each reads a quarter of the operand, in parts of up to 32 pieces."""
        machine, descriptors = self._machine, self._descriptors
        known = machine.warpgroups.accesses
        key = (self._at, self._extent, self._along, descriptors.tobytes(), groups.tobytes())
        if key in known:
            return known[key]
        alike = len(descriptors) == 1 and bool((groups == groups[:1]).all())
        on = groups[:1] if alike else groups
        descriptors = np.where(on, descriptors, descriptors.dtype.type(0))
        address = np.zeros((len(on), machine.warps, self._extent // 2), np.int64)
        inside = address[:, : WARPS * on.shape[1]].reshape(*on.shape, -1)
        for bits in np.unique(descriptors[on]).tolist():
            inside[on & (descriptors == bits)] = pieces(bits, self._extent, self._along)
        address[:, : WARPS * on.shape[1]] = inside.reshape(len(on), WARPS * on.shape[1], -1)
        if len(known) >= _KEEP:
            known.clear()
        known[key] = self._parts(address, lanes_of(on, machine.warps))
        return known[key]

    def _parts(self, address: Array, on: Array) -> list[Access]:
        machine, mask = self._machine, None if on.all() else on
        found: list[Access] = []
        for first in range(0, address.shape[-1], LANES):
            part = address[..., first : first + LANES]
            lanes = part.shape[-1]
            part = np.pad(part, ((0, 0), (0, 0), (0, LANES - lanes)))
            found.append(
                machine.shared.access(machine.findings, self._at, part, mask, PIECE, lanes)
            )
        return found
