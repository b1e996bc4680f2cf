"""Addresses of shared memory within a cluster: whose memory, and where in it.

An address of one's own memory is an offset below 2**24. mapa puts the rank of a block, plus 1,
above it, so that addresses of all blocks of a cluster differ, and one's own needs no mapa.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import LANES, Array, Mask

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine

RANK_SHIFT = 24
_OFFSET = (1 << RANK_SHIFT) - 1


def mapped(machine: Machine, address: Array, rank: Array) -> Array:
    """The address of the same variable in the block of this rank."""
    if machine.peers == 1:
        return address
    low = address & address.dtype.type(_OFFSET)
    high = address & address.dtype.type(~_OFFSET & (2 ** (8 * address.itemsize) - (1 << 32)))
    number = (rank.astype(address.dtype) + address.dtype.type(1)) << address.dtype.type(RANK_SHIFT)
    found: Array = high | number | low
    return found


def rank_of(machine: Machine, address: Array) -> Array:
    """The rank of the block that each address belongs to."""
    if machine.peers == 1:
        return np.zeros((1, 1, 1), np.int64)
    number = address.astype(np.int64) >> RANK_SHIFT & 0xFF
    own = (np.arange(machine.blocks) % machine.peers).reshape(-1, 1, 1)
    return np.where(number == 0, own, number - 1)


def resolved(machine: Machine, at: int, address: Array, mask: Mask) -> tuple[Array, Array, Mask]:
    """Offsets [B, W, 32], the rows of the chunk that they lie in, and the lanes that go on.

    A block that has ended has no memory any more: who touches it is reported and off.
    """
    address = np.broadcast_to(address, machine.full)
    own = np.broadcast_to(np.arange(machine.blocks).reshape(-1, 1, 1), machine.full)
    number = address >> RANK_SHIFT
    remote = (number > 0) & (number <= machine.peers)
    rows = np.where(remote, own - own % machine.peers + number - 1, own)
    ended: Array = np.logical_and.reduce(machine.exited, axis=(1, 2))
    gone = ended[rows] & remote
    if gone.any():
        machine.peer_watch.touches_ended(at, gone if mask is None else gone & mask, rows)
        mask = ~gone if mask is None else ~gone & mask
    return np.where(remote, address & _OFFSET, address), rows, mask


def cluster_access(
    machine: Machine, at: int, address: Array, mask: Mask, width: int, lanes: int = LANES
) -> Access:
    """Checks an access to shared memory of any block of the cluster."""
    shared, findings = machine.shared, machine.findings
    if machine.peers == 1 or not bool((address >> RANK_SHIFT).any()):
        return shared.access(findings, at, address, mask, width, lanes)
    offset, rows, mask = resolved(machine, at, address, mask)
    access = shared.access(findings, at, offset, mask, width, lanes, rows)
    machine.peer_watch.touches(access)
    return access
