"""Generic addresses: which space each lane's address is of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.compiler import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine

_WINDOWS = (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW))


def in_window(address: Array, base: int) -> Array:
    inside: Array = (address >= base) & (address < base + WINDOW_BYTES)
    return inside


def spaces(machine: Machine, address: Array, mask: Mask) -> Iterator[tuple[str, Array, Mask]]:
    """For each space that lanes are in: its name, addresses within it, and these lanes."""
    rest = np.ones((1, 1, 1), bool) if mask is None else mask
    found = False
    for name, base in _WINDOWS:
        inside = in_window(address, base)
        if inside.all():
            yield name, address - base, mask
            return
        if (lanes := inside & rest).any():
            found = True
            yield name, address - base, np.broadcast_to(lanes, machine.full)
            rest = rest & ~inside
    if not found:
        yield "global", address, mask
    elif rest.any():
        yield "global", address, np.broadcast_to(rest, machine.full)
