"""Bulk copies from and to the caller's arrays, as the arrays' shadow sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.async_shadow import Issuers
from tilewright.emulator.bulk_ends import RunEnd
from tilewright.emulator.tensor_box import CHUNK, Box

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine

_CELL = 4  # bytes that are looked at together, where elements are no narrower


def watch_boxes(
    machine: Machine, at: int, who: Issuers, box: Box, start: Array, write: bool
) -> None:
    """Boxes that begin at [n, rank], of n issuers."""
    if machine.hazards is None or not machine.hazards.watches(box.allocation):
        return
    size = box.map.element_bytes
    for place, coordinates in enumerate(start):
        where, _ = box.elements(coordinates)
        _touch(machine, at, who, place, box, where * size, size, write)


def watch_runs(
    machine: Machine, at: int, who: Issuers, runs: RunEnd, which: Array, nbytes: int, write: bool
) -> None:
    """The runs numbered `which`; `who` has one issuer for each run of all, or for each of these."""
    if machine.hazards is None:
        return
    for place, number in enumerate(which.tolist()):
        allocation = runs.allocations[number]
        if machine.hazards.watches(allocation):
            where = int(runs.first[number]) * CHUNK + np.arange(0, nbytes, _CELL)
            issuer = number if len(who.block) == len(runs.first) else place
            machine.hazards.array_copy(
                allocation, at, where, _CELL, _same(who, issuer, len(where)), write
            )


def _touch(
    machine: Machine, at: int, who: Issuers, place: int, box: Box, where: Array, size: int,
    write: bool,
) -> None:  # fmt: skip
    assert machine.hazards is not None  # the caller asked
    width = min(size, _CELL)
    if size > width:
        where = (where[:, None] + np.arange(0, size, width)).reshape(-1)
    same = _same(who, place, len(where))
    machine.hazards.array_copy(box.allocation, at, where, width, same, write)


def _same(who: Issuers, place: int, count: int) -> Issuers:
    return who.of(np.full(count, place))
