"""Which blocks ran, where a launch ran a part of its grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.emulator.arrays import Array

_SHOWN = 8  # pieces that a sentence lists


@dataclass(frozen=True, slots=True)
class Part:
    """`ranges` of linear block ids, first and last, ascending; `total` blocks are in the grid."""

    ranges: tuple[tuple[int, int], ...]
    total: int

    @property
    def count(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    @property
    def short(self) -> str:
        """4 of 16 blocks"""
        return f"{self.count:,} of {self.total:,} blocks"

    @property
    def words(self) -> str:
        """What a reader of any view must know of the counts and of what was not looked for."""
        pieces: list[str] = []
        for first, last in self.ranges:
            alone = last - first < 3
            pieces += map(str, range(first, last + 1)) if alone else [f"{first} to {last}"]
            if len(pieces) > _SHOWN:
                break
        listed = ", ".join(pieces[:_SHOWN]) + (", …" if len(pieces) > _SHOWN else "")
        return f"Only {self.short} ran: {listed}; unwritten outputs were not looked for."

    def to_dict(self) -> dict[str, Any]:
        return {"blocks": self.count, "of": self.total, "ranges": [list(it) for it in self.ranges]}


def part_of(ids: Sequence[int] | Array | range, total: int) -> Part:
    """The part that `ids`, ascending and each once, make of a grid of `total` blocks."""
    if isinstance(ids, range) and ids.step == 1:  # first:N, which may be billions
        return Part(((ids[0], ids[-1]),), total)
    numbers = np.asarray(ids, np.int64)
    cuts = np.flatnonzero(np.diff(numbers) != 1)
    firsts = numbers[np.concatenate(([0], cuts + 1))].tolist()
    lasts = numbers[np.concatenate((cuts, [len(numbers) - 1]))].tolist()
    return Part(tuple(zip(firsts, lasts, strict=True)), total)
