"""One access of a warp's lanes to memory, and what its checks leave of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import LANES, POISON, Array, Mask

if TYPE_CHECKING:
    from tilewright.emulator.findings import Findings
    from tilewright.emulator.memory import GlobalMemory
    from tilewright.emulator.shadow import Cells


@dataclass(slots=True)
class Access:
    """An access after its checks: byte addresses [b, W, lanes] and the lanes that go on.

    `at` is the instruction, `cells` what its shadow is found by, kept for the next time.
    """

    address: Array
    active: Mask
    width: int
    at: int
    cells: Cells | None = None
    cells_rows: tuple[int, int] = (0, 0)
    rows: Array | None = (
        None  # of shared memory: whose it is, by row of the chunk; None = one's own
    )


def placed_at(on: Array, values: Array) -> Array:
    """The values at their places in a mask."""
    placed = np.zeros(on.shape, bool)
    placed[on] = values
    return placed


def _blocks(mask: Mask) -> int:
    return 1 if mask is None else mask.shape[0]


def shaped(address: Array, mask: Mask, blocks: int, warps: int) -> tuple[Array, Mask]:
    """Full warps and lanes; the block axis stays 1 where neither depends on the block."""
    if mask is not None and len(mask) > 1 and bool((mask == mask[:1]).all()):
        mask = mask[:1]  # as where some warps have a role of their own in all blocks
    b = 1 if address.shape[0] == 1 and _blocks(mask) == 1 else blocks
    address = np.broadcast_to(address, (b, warps, LANES))
    if mask is None or mask.all():
        return address, None
    return address, np.broadcast_to(mask, (b, warps, LANES))


def dropped(
    findings: Findings,
    access: Access,
    outside: Array,
    misaligned: Array,
    blocks: int,
    memory: GlobalMemory | None = None,
) -> Access:
    """Reports the lanes that are off and leaves the others; `memory` is None for shared memory."""
    on = np.ones(access.address.shape, bool) if access.active is None else access.active
    width, naming = access.width, findings.naming
    space = "global" if memory else "shared"

    def beyond(address: int) -> str:
        where = naming.outside(address, width) if memory else naming.beyond_shared()
        return f"{width} bytes {where}"

    def crooked(address: int) -> str:
        return f"{width} bytes of {space} memory at an address that is no multiple of {width}"

    findings.lanes("out-of-bounds", access.at, beyond, access.address, outside & on, blocks, space)
    bad = misaligned & ~outside & on
    findings.lanes("misaligned", access.at, crooked, access.address, bad, blocks, space)
    return replace(access, active=on & ~outside & ~misaligned, cells=None)


def poisoned(values: Array, active: Mask) -> Array:
    if active is None:
        return values
    poison = np.full(values.dtype.itemsize, POISON, np.uint8).view(values.dtype)[0]
    return np.where(active, values, poison)
