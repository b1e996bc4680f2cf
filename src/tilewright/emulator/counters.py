"""Counts per instruction: what the hardware's counters would say, from the addresses alone.

`model.banks` prices one warp access at a time. Here the rows of a whole launch are reduced to
the few patterns they consist of: banks, sectors and lines repeat every 128 bytes, so a row
counts as its distances from its own first 128-byte line, and blocks that differ by whole lines
are one row with a weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.model.banks import Cost

INACTIVE = -(1 << 62)
_LINE = 128
_KEEP_PATTERNS = 1024  # of whole chunks, up to 128 KiB each; scattered accesses never repeat
_KEEP_ROWS = 65536

Price = Callable[..., Cost]  # of one or two rows of lane addresses


@cache
def priced(function: Callable[..., Cost], *rest: int) -> Price:
    """A function of model.banks with its trailing arguments; the same object for the same ones."""

    def price(*rows: Sequence[int | None]) -> Cost:
        return function(*rows, *rest)

    return price


@dataclass(slots=True)
class Tally:
    """What one memory instruction cost so far."""

    requests: int = 0
    wavefronts: int = 0
    wavefronts_ideal: int = 0
    sectors: int = 0
    sectors_ideal: int = 0
    bytes: int = 0

    def add(self, cost: Tally, weight: int) -> None:
        self.requests += weight * cost.requests
        self.wavefronts += weight * cost.wavefronts
        self.wavefronts_ideal += weight * cost.wavefronts_ideal
        self.sectors += weight * cost.sectors
        self.sectors_ideal += weight * cost.sectors_ideal
        self.bytes += weight * cost.bytes


class Counters:
    """The tallies of a launch, by index of the instruction, and the prices met so far."""

    def __init__(self) -> None:
        self.tallies: dict[int, Tally] = {}
        self._rows: dict[tuple[Price, int, bytes], Tally] = {}
        self._patterns: dict[tuple[Price, int, bytes], Tally] = {}

    def count(self, at: int, price: Price, width: int, rows: Sequence[Array], blocks: int) -> None:
        """Counts one execution of instruction `at`.

        `rows` are one or two arrays [b, W, lanes] from `relative` (shared first); each of the b
        stands for blocks / b blocks. `width` is the bytes that a lane moves.
        """
        merged = _merge_blocks(rows)
        weight = blocks // max(row.shape[0] for row in merged)
        flat = [_rows_of(row, merged) for row in merged]
        packed = flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)
        key = (price, width, packed.tobytes())
        pattern = self._patterns.get(key)
        if pattern is None:
            if len(self._patterns) >= _KEEP_PATTERNS:
                self._patterns.clear()
            pattern = self._patterns[key] = self._price(price, width, packed, rows[0].shape[-1])
        self.tallies.setdefault(at, Tally()).add(pattern, weight)

    def add(self, at: int, tally: Tally) -> None:
        """Counts what instruction `at` cost where no price says it."""
        self.tallies.setdefault(at, Tally()).add(tally, 1)

    def _price(self, price: Price, width: int, packed: Array, lanes: int) -> Tally:
        total = Tally()
        size = packed.shape[1] * packed.itemsize
        raw = packed.tobytes()
        rows = Counter(raw[start : start + size] for start in range(0, len(raw), size))
        for row, times in rows.items():
            key = (price, width, row)
            cost = self._rows.get(key)
            if cost is None:
                if len(self._rows) >= _KEEP_ROWS:
                    self._rows.clear()
                cost = self._rows[key] = _price_row(price, width, row, lanes)
            total.add(cost, times)
        return total


def relative(address: Array, active: Mask) -> Array:
    """Distances of a row's lanes from the row's first 128-byte line; INACTIVE where masked."""
    if active is None:
        distance: Array = address - (address[..., :1] & -_LINE)
        return distance
    first = np.take_along_axis(address, active.argmax(-1)[..., None], -1)
    return np.where(active, address - (first & -_LINE), INACTIVE)


def _merge_blocks(rows: Sequence[Array]) -> list[Array]:
    """One block's rows where all blocks have the same."""
    return [row[:1] if row.shape[0] > 1 and bool((row == row[:1]).all()) else row for row in rows]


def _rows_of(row: Array, together: Sequence[Array]) -> Array:
    """[b·W, lanes], with the blocks of the longest of the arrays that are counted together."""
    blocks = max(other.shape[0] for other in together)
    full = np.broadcast_to(row, (blocks, *row.shape[1:]))
    return np.ascontiguousarray(full.reshape(-1, row.shape[-1]), dtype=np.int64)


def _price_row(price: Price, width: int, row: bytes, lanes: int) -> Tally:
    addresses = [None if a == INACTIVE else a for a in np.frombuffer(row, np.int64).tolist()]
    active = sum(a is not None for a in addresses[:lanes])
    if not active:
        return Tally()
    parts = [addresses[i : i + lanes] for i in range(0, len(addresses), lanes)]
    cost = price(*parts)
    return Tally(
        1, cost.wavefronts, cost.wavefronts_ideal, cost.sectors, cost.sectors_ideal, active * width
    )
