"""The accumulators of wgmma, kept as matrices as long as only wgmma uses them.

A warpgroup's D is 64 × n. Lane l of warp w holds of it, in registers 4·j + 2·h + e (f16: two
elements e in register 2·j + h), row 16·w + 8·h + l / 4 and column 8·j + 2·(l % 4) + e. As between
the steps of a main loop no other instruction looks at these registers, they get their values
when one does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.emulator.arrays import LANES, Array, Mask

WARPS = 4  # of a warpgroup
ROWS = 64  # of D
_DTYPES: dict[str, np.dtype[Any]] = {
    "f32": np.dtype("f4"),
    "s32": np.dtype("i4"),
    "f16": np.dtype("f2"),
}

Fetches = Sequence[Callable[[list[Array]], Array]]
Puts = Sequence[Callable[[list[Array], Array, Mask], None]]


@dataclass(frozen=True, eq=False, slots=True)
class Registers:
    """The registers of one D: how they are read and written, as f32 or as 32 bits."""

    number: int  # which set of registers of the kernel this is
    kind: str  # f32, s32 or f16
    columns: int
    fetches: Fetches
    puts: Puts


class Sums:
    """One D of all warpgroups of a machine, [blocks, warpgroups, 64, columns].

    `held`: the matrix has the value, and the registers have an older one. `flying`: how many
    wgmma still work on it.
    """

    def __init__(self, registers: Registers, blocks: int, warps: int) -> None:
        groups = warps // WARPS
        self.registers, self.warps = registers, warps
        self.matrix = np.zeros((blocks, groups, ROWS, registers.columns), _DTYPES[registers.kind])
        self.held = np.zeros((blocks, groups), bool)
        self.flying = np.zeros((blocks, groups), np.int64)

    def take(self, regs: list[Array], groups: Array) -> None:
        """Reads the registers of these warpgroups [blocks, warpgroups]."""
        blocks, count = self.held.shape
        words = [fetch(regs) for fetch in self.registers.fetches]
        lanes = np.empty((len(words), blocks, WARPS * count, LANES), words[0].dtype)
        for at, word in enumerate(words):
            lanes[at] = np.broadcast_to(word, (blocks, self.warps, LANES))[:, : WARPS * count]
        pairs = lanes.view(self.matrix.dtype)  # of f16 two to a word
        if self.registers.kind == "f16":
            parts = pairs.reshape(-1, 2, blocks, count, WARPS, 8, 4, 2).transpose(
                2, 3, 4, 1, 5, 0, 6, 7
            )
        else:
            parts = pairs.reshape(-1, 2, 2, blocks, count, WARPS, 8, 4).transpose(
                3, 4, 5, 1, 6, 0, 7, 2
            )
        into = self.matrix.reshape(parts.shape)
        np.copyto(into, parts, where=groups.reshape(*groups.shape, 1, 1, 1, 1, 1, 1))

    def deliver(self, regs: list[Array], groups: Array) -> None:
        """Writes the registers of these warpgroups."""
        blocks, count = self.held.shape
        parts = self.matrix.reshape(blocks, count, WARPS, 2, 8, -1, 4, 2)
        if self.registers.kind == "f16":
            lanes = np.ascontiguousarray(parts.transpose(5, 3, 0, 1, 2, 4, 6, 7)).view("u4")
        else:
            order = (5, 3, 7, 0, 1, 2, 4, 6)
            lanes = np.ascontiguousarray(parts.transpose(order))
            lanes = lanes.view("u4") if self.registers.kind == "s32" else lanes
        lanes = lanes.reshape(len(self.registers.puts), blocks, WARPS * count, LANES)
        if WARPS * count != self.warps:
            rest = self.warps - WARPS * count
            lanes = np.pad(lanes, ((0, 0), (0, 0), (0, rest), (0, 0)))
        mask = lanes_of(groups, self.warps)
        whole = None if mask.all() else mask
        for put, value in zip(self.registers.puts, lanes, strict=True):
            put(regs, value, whole)

    def spoil(self, regs: list[Array], groups: Array) -> None:
        """What registers of these warpgroups hold meanwhile: nothing that means anything."""
        kind = "f4" if self.registers.kind == "f32" else "u4"
        nothing = np.full((1, 1, 1), 0xFFFF_FFFF, "u4").view(kind)
        mask = lanes_of(groups, self.warps)
        for put in self.registers.puts:
            put(regs, nothing, mask)


def lanes_of(groups: Array, warps: int) -> Array:
    """The lanes [blocks, warps, 32] of warpgroups [blocks, warpgroups]."""
    by_warp = np.repeat(groups, WARPS, axis=1)
    if by_warp.shape[1] != warps:
        by_warp = np.pad(by_warp, ((0, 0), (0, warps - by_warp.shape[1])))
    return np.broadcast_to(by_warp[..., None], (*by_warp.shape, LANES))
