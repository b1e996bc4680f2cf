"""What cuBLASLt's algorithm numbers mean: tiles, stages and clusters by name.

The enumerations are those of cublasLt.h in cuBLAS 13.1 (nvidia-cublas 13.1.1.3, read 2026-11-30).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

# cublasLtMatmulTile_t 1 to 35; tile_name makes the others.
_TILES = (
    "8x8 8x16 16x8 8x32 16x16 32x8 8x64 16x32 32x16 64x8 32x32 32x64 64x32 32x128 64x64 128x32 "
    "64x128 128x64 64x256 128x128 256x64 64x512 128x256 256x128 512x64 64x96 96x64 96x128 128x160 "
    "160x128 192x128 128x192 128x96 32x256 256x32"
)
_LAST_TILES = ("256x512", "256x1024", "512x512", "512x1024")
# The regular part: steps of rows and columns up to 768, and the most elements of a tile.
_REGULAR = ((8, 64, 49152), (64, 8, 65536))
# cublasLtMatmulStages_t: K elements a stage x stages; 29 and 30 are not in use.
_STAGES = [f"{size}x{count}" for size in (16, 32, 64, 128) for count in range(1, 7)]
_MORE_STAGES = "32x10 8x4 16x10 8x5 - - 8x3 8xAUTO 16xAUTO 32xAUTO 64xAUTO 128xAUTO 256xAUTO"
# cublasLtClusterShape_t from 2 on.
_CLUSTERS = (
    "1x1 2x1 4x1 1x2 2x2 4x2 1x4 2x4 4x4 8x1 1x8 8x2 2x8 16x1 1x16 3x1 5x1 6x1 7x1 9x1 10x1 11x1 "
    "12x1 13x1 14x1 15x1 3x2 5x2 6x2 7x2 1x3 2x3 3x3 4x3 5x3 3x4 1x5 2x5 3x5 1x6 2x6 1x7 2x7 1x9 "
    "1x10 1x11 1x12 1x13 1x14 1x15"
)


@dataclass(frozen=True)
class Algorithm:
    """The configuration of one algorithm, in cuBLASLt's own numbers.

    Its tile and cluster count rows and columns of the column-major result, our Cᵀ.
    """

    ident: int
    tile: int
    split_k: int
    reduction: int
    swizzle: int
    option: int
    stages: int
    inner: int
    cluster: int

    def __str__(self) -> str:
        return (
            f"algo {self.ident} tile {tile_name(self.tile)} stages {stages_name(self.stages)} "
            f"cluster {cluster_name(self.cluster)} split-K {self.split_k} "
            f"swizzle {self.swizzle} option {self.option}"
        )


def tile_name(number: int) -> str:
    """cublasLtMatmulTile_t 23 is "128x256", rows x columns; an unknown number is "#700"."""
    tiles = _tiles()
    return tiles[number - 1] if 1 <= number <= len(tiles) else f"#{number}"


@cache
def _tiles() -> tuple[str, ...]:
    """All names from 1 on: a list, then all multiples of 8 x 64, then those of 64 x 8."""
    names = dict.fromkeys(_TILES.split())
    for row_step, column_step, largest in _REGULAR:
        for rows in range(row_step, 769, row_step):
            for columns in range(column_step, 769, column_step):
                if rows * columns <= largest:
                    names.setdefault(f"{rows}x{columns}")
    return (*names, *_LAST_TILES)


def stages_name(number: int) -> str:
    """cublasLtMatmulStages_t 36 is "128xAUTO": K elements a stage x stages."""
    names = ["any", *_STAGES, *_MORE_STAGES.split(), "768xAUTO"]
    known = 0 <= number < len(names) and names[number] != "-"
    return names[number] if known else f"#{number}"


def cluster_name(number: int) -> str:
    """cublasLtClusterShape_t 3 is "2x1"; 0 leaves it to the library, "auto"."""
    if number == 0:
        return "auto"
    names = _CLUSTERS.split()
    return names[number - 2] if 2 <= number < len(names) + 2 else f"#{number}"
