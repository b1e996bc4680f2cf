"""In which order blocks walk the tiles of C, and what each wave of them reads.

`raster` mirrors cuda/tile/raster.cuh. Blocks that run at the same time share what they read
through the L2 cache: tiles of one row of C need the same rows of A, tiles of one column the same
columns of B. A wave therefore moves least where its tiles lie in a square.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass

from tilewright.errors import InputError
from tilewright.model.checks import check_positive

MOST_TILES = 1 << 18  # that an order is walked for: 65536 by 65536 in tiles of 128 by 128


def raster(block: int, tiles_m: int, tiles_n: int, width: int = 8) -> tuple[int, int]:
    """The tile (m, n) of C that a block computes, of a grid of tiles_m * tiles_n.

    Panels of `width` tile columns are walked row by row, so that neighbouring blocks share rows
    of A and a panel of B that stays in L2. The last panel is as wide as what is left, which makes
    this a bijection from block ids onto tiles for every grid.
    Raises: InputError for sizes that are not positive and a block outside the grid.
    """
    check_positive(tiles_m=tiles_m, tiles_n=tiles_n, width=width)
    if not 0 <= block < tiles_m * tiles_n:
        raise InputError(f"block={block} must be 0..{tiles_m * tiles_n - 1}.")
    first = block // (width * tiles_m) * width  # column of the panel
    columns, inside = min(width, tiles_n - first), block - first * tiles_m
    return inside // columns, first + inside % columns


@dataclass(frozen=True, slots=True)
class Order:
    """A way through the tiles: `tile(block, tiles_m, tiles_n)` is (m, n)."""

    name: str
    tile: Callable[[int, int, int], tuple[int, int]]


def order_named(text: str) -> Order:
    """`rows` (along n first), `columns` (along m first), `panels:W` (raster above, W tile columns
    wide), `serpentine:W` (the same, every second panel upwards), `groups:W` (Triton's
    GROUP_SIZE_M: W tile rows, walked column by column).

    Raises: InputError for others.
    """
    match = re.fullmatch(r"(rows|columns|panels|serpentine|groups)(?::(\d{1,6}))?", text, re.ASCII)
    if match is None or (match[1] in ("rows", "columns")) != (match[2] is None):
        raise InputError(
            f"order={text!r} must be rows, columns, panels:W, serpentine:W or groups:W, W being "
            "the width in tiles, up to six digits, as in panels:8."
        )
    if match[1] == "rows":
        return Order(text, lambda block, tiles_m, tiles_n: divmod(block, tiles_n))
    if match[1] == "columns":
        return Order(text, lambda block, tiles_m, tiles_n: (block % tiles_m, block // tiles_m))
    width = int(match[2])
    if width < 1:
        raise InputError(f"order={text!r}: its width must be positive.")
    if match[1] == "panels":
        return Order(text, lambda block, tiles_m, tiles_n: raster(block, tiles_m, tiles_n, width))

    if match[1] == "serpentine":

        def back(block: int, tiles_m: int, tiles_n: int) -> tuple[int, int]:
            m, n = raster(block, tiles_m, tiles_n, width)
            return (tiles_m - 1 - m if n // width % 2 else m), n

        return Order(text, back)

    def turned(block: int, tiles_m: int, tiles_n: int) -> tuple[int, int]:
        n, m = raster(block, tiles_n, tiles_m, width)
        return m, n

    return Order(text, turned)


@dataclass(frozen=True, slots=True)
class WaveReads:
    """Of one wave of blocks: distinct tile rows of A and tile columns of B, and their bytes."""

    blocks: int
    rows: int
    columns: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Grid:
    """C[m, n] in tiles of [bm, bn], with k deep rows and columns of `element_bytes` each.

    Raises: InputError for sizes that are not positive.
    """

    m: int
    n: int
    k: int
    bm: int
    bn: int
    element_bytes: int

    def __post_init__(self) -> None:
        check_positive(**asdict(self))

    @property
    def tiles(self) -> tuple[int, int]:
        return -(-self.m // self.bm), -(-self.n // self.bn)

    @property
    def read_bytes(self) -> int:
        """What all blocks read together, each its rows of A and its columns of B."""
        tiles_m, tiles_n = self.tiles
        return self.element_bytes * self.k * (tiles_n * self.m + tiles_m * self.n)

    @property
    def least_bytes(self) -> int:
        """A and B once."""
        return self.element_bytes * self.k * (self.m + self.n)


def wave_reads(order: Order, grid: Grid, per_wave: int) -> list[WaveReads]:
    """What each wave reads of A and B when its blocks share everything they can.

    Raises: InputError for more than MOST_TILES tiles. Cost: about 1 us a tile.
    """
    tiles_m, tiles_n = grid.tiles
    total = tiles_m * tiles_n
    if total > MOST_TILES:
        raise InputError(
            f"{total:,} tiles of {grid.bm} by {grid.bn} are more than the {MOST_TILES:,} that are "
            "walked; use larger tiles or a smaller problem."
        )
    found = []
    for first in range(0, total, per_wave):
        blocks = range(first, min(first + per_wave, total))
        tiles = [order.tile(block, tiles_m, tiles_n) for block in blocks]
        rows, columns = {m for m, _ in tiles}, {n for _, n in tiles}
        a = sum(min(grid.bm, grid.m - row * grid.bm) for row in rows)
        b = sum(min(grid.bn, grid.n - column * grid.bn) for column in columns)
        size = grid.element_bytes * grid.k * (a + b)
        found.append(WaveReads(len(blocks), len(rows), len(columns), size))
    return found
