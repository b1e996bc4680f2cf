"""Which parts of A and B feed one tile of C, step by step along K."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import InputError
from tilewright.model.checks import check_positive


@dataclass(frozen=True, slots=True)
class Step:
    """`rows` of A and C, `columns` of B and C and `depth` of K, each [first, last)."""

    number: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    depth: tuple[int, int]
    element_bytes: int

    @property
    def extents(self) -> tuple[int, int, int]:
        """bm, bn and bk of this step; less at the edges."""
        m, n, k = (last - first for first, last in (self.rows, self.columns, self.depth))
        return m, n, k

    @property
    def loaded_bytes(self) -> int:
        """Of A and of B, once each."""
        m, n, k = self.extents
        return self.element_bytes * k * (m + n)

    @property
    def flops(self) -> int:
        m, n, k = self.extents
        return 2 * m * n * k


def steps(
    mnk: tuple[int, int, int],
    tile: tuple[int, int, int],
    at: tuple[int, int],
    element_bytes: int,
) -> list[Step]:
    """The steps of the tile `at` (row, column of tiles) of C[m, n] with k = mnk[2].

    Raises: InputError for sizes that are not positive and a tile that C does not have.
    """
    (m, n, k), (bm, bn, bk) = mnk, tile
    check_positive(m=m, n=n, k=k, bm=bm, bn=bn, bk=bk, element_bytes=element_bytes)
    for name, index, tiles in (("row", at[0], -(-m // bm)), ("col", at[1], -(-n // bn))):
        if not 0 <= index < tiles:
            many = f"{tiles} tile{'s' * (tiles > 1)}"
            raise InputError(f"{name}={index} must be 0..{tiles - 1}: C has {many} there.")
    rows = at[0] * bm, min((at[0] + 1) * bm, m)
    columns = at[1] * bn, min((at[1] + 1) * bn, n)
    return [
        Step(number, rows, columns, (first, min(first + bk, k)), element_bytes)
        for number, first in enumerate(range(0, k, bk))
    ]
