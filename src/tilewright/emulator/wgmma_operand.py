"""Operands of wgmma in shared memory, which are read when it completes.

The watch over shared memory hears of a read when it begins, and when a warp has waited for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import LANES, Array
from tilewright.emulator.async_shadow import Issuers, Ticket
from tilewright.emulator.wgmma_descriptors import PIECE, pieces
from tilewright.emulator.wgmma_sums import WARPS, lanes_of

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine

_ROW = 128  # bytes, of a swizzle's pattern
_KEEP = 1024  # sets of accesses; a main loop repeats a few dozen


class SharedOperand:
    """One operand of one wgmma: descriptors [b, warpgroups], alike in all blocks where b is 1.

    `extent` is m or n, and `along` says that its elements lie along that.
    """

    def __init__(
        self, machine: Machine, at: int, descriptors: Array, extent: int, along: bool
    ) -> None:
        self._machine, self._at = machine, at
        self._descriptors, self._extent, self._along = descriptors, extent, along
        self._reads: list[tuple[Ticket, Array, Array]] = []  # with blocks and warpgroups

    @property
    def nbytes(self) -> int:
        """Of one warpgroup."""
        return 2 * PIECE * self._extent

    def begin(self, groups: Array) -> None:
        """From now on nobody may write there until one of the four warps has waited."""
        machine = self._machine
        if machine.hazards is None:
            return
        descriptors = np.broadcast_to(self._descriptors, groups.shape)
        for bits in np.unique(descriptors[groups]).tolist():
            block, group = np.nonzero(groups & (descriptors == bits))
            block, group = np.repeat(block, WARPS), np.repeat(group, WARPS)
            warp = group * WARPS + np.arange(len(group)) % WARPS
            who = Issuers(block, warp, np.zeros_like(block), block)
            first = machine.hazards.clocks.column(block, group * WARPS).tolist()
            columns = tuple(tuple(range(one, one + WARPS)) for one in first)
            address = pieces(bits, self._extent, self._along)
            beside = machine.hazards.beside
            ticket = beside.async_read(self._at, who, _spans(address), columns, address)
            self._reads.append((ticket, block, group))

    def over(self, groups: Array) -> None:
        """These warpgroups have waited for it: what any of their warps tells says so."""
        hazards = self._machine.hazards
        for ticket, block, group in self._reads if hazards is not None else ():
            assert hazards is not None
            due = groups[block, group]
            for warp in range(WARPS) if due.any() else ():
                column = hazards.clocks.column(block, group * WARPS + warp)
                hazards.beside.read_over(ticket, np.where(due, column, -1))

    def read(self, groups: Array) -> Array:
        """Words [blocks, warpgroups, …] as they are now: 32 bits, [extent, 8] or, along the extent,
        [16, extent / 2]."""
        shared, (blocks, count) = self._machine.shared, groups.shape
        parts = [shared.gather(access) for access in self._accesses(groups)]
        lanes = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
        lanes = lanes[:, : WARPS * count].reshape(blocks, count, -1)
        shape = (16, self._extent // 2) if self._along else (self._extent, 8)
        return np.ascontiguousarray(lanes).view(np.uint32).reshape(blocks, count, *shape)

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


def _spans(address: Array) -> tuple[tuple[int, int], ...]:
    """The bytes of pieces at these addresses, by whole rows of 128 bytes.

    The slices of a swizzled tile have the same rows, and so the same place in the watch.
    """
    rows = np.unique(address.reshape(-1) // _ROW)
    last = np.flatnonzero(np.diff(rows, append=rows[-1] + 2) > 1)
    first = np.concatenate([[0], last[:-1] + 1])
    pairs = zip(rows[first].tolist(), rows[last].tolist(), strict=True)
    return tuple((one * _ROW, (other + 1) * _ROW) for one, other in pairs)
