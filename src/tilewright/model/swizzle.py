"""Where column `col` of row `row` of a tile lives inside its row, in elements.

Mirrors of cuda/tile/swizzle.cuh. Each moves whole chunks of 16 bytes (8 elements of 16 bits, 4 of
fp32), stays inside the row and is its own inverse: storing and loading apply the same function.
"""

from __future__ import annotations


def swizzle_a(row: int, col: int) -> int:
    """Rows of 64 bytes: two of them fill the 32 banks, so the chunk moves with every second."""
    return col ^ (row >> 1 & 3) << 3


def swizzle_b(row: int, col: int) -> int:
    """Rows of 128 or 256 bytes: each starts at bank 0, so the chunk moves with every row."""
    return col ^ (row & 7) << 3


def swizzle_c(row: int, col: int) -> int:
    """C staged in rows of 128 or 256 bytes: the 8 rows of an mma accumulator land in 8 chunks."""
    return col ^ (row & 7) << 3


def swizzle_at(k: int, m: int) -> int:
    """A transposed, fp32: the 32 lanes that store 8 rows of 4 K columns get 32 banks."""
    return m ^ (k >> 2 & 3) << 3
