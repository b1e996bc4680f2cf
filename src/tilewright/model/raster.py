"""In which order blocks walk the tiles of C: the mirror of cuda/tile/raster.cuh."""

from __future__ import annotations

from tilewright.errors import InputError


def raster(block: int, tiles_m: int, tiles_n: int, width: int = 8) -> tuple[int, int]:
    """The tile (m, n) of C that a block computes, of a grid of tiles_m * tiles_n.

    Panels of `width` tile columns are walked row by row, so that neighbouring blocks share rows
    of A and a panel of B that stays in L2. The last panel is as wide as what is left, which makes
    this a bijection from block ids onto tiles for every grid.
    Raises: InputError for sizes that are not positive and a block outside the grid.
    """
    for name, size in (("tiles_m", tiles_m), ("tiles_n", tiles_n), ("width", width)):
        if size < 1:
            raise InputError(f"{name}={size} must be positive.")
    if not 0 <= block < tiles_m * tiles_n:
        raise InputError(f"block={block} must be 0..{tiles_m * tiles_n - 1}.")
    first = block // (width * tiles_m) * width  # column of the panel
    columns, inside = min(width, tiles_n - first), block - first * tiles_m
    return inside // columns, first + inside % columns
