"""How much arithmetic a block does for each byte it brings into shared memory.

A step along K multiplies a [bm, bk] tile of A by a [bk, bn] tile of B: 2 * bm * bn * bk operations
on bk * (bm + bn) elements. bk cancels, which is why a wider tile of C raises the intensity and a
deeper one does not.
"""

from __future__ import annotations

from tilewright.errors import InputError
from tilewright.model.checks import check_positive


def tile_intensity(bm: int, bn: int, element_bytes: float) -> float:
    """FLOP per byte loaded for a [bm, bn] tile of C: 2 * bm * bn / (element_bytes * (bm + bn)).

    Raises: InputError unless all three are positive.
    """
    check_positive(bm=bm, bn=bn, element_bytes=element_bytes)
    return 2 * bm * bn / (element_bytes * (bm + bn))


def tile_bytes(bm: int, bn: int, bk: int, element_bytes: int) -> int:
    """Bytes of shared memory that the tiles of A and B of one step along K fill.

    Raises: InputError unless all four are positive.
    """
    check_positive(bm=bm, bn=bn, bk=bk, element_bytes=element_bytes)
    return element_bytes * bk * (bm + bn)


def tile_threads(bm: int, bn: int, tm: int, tn: int) -> int:
    """Threads of a block that owns [bm, bn] of C, of which each holds [tm, tn] in registers.

    Raises: InputError unless all four are positive and tm, tn divide bm, bn.
    """
    check_positive(bm=bm, bn=bn, tm=tm, tn=tn)
    if bm % tm or bn % tn:
        raise InputError(f"tm={tm} must divide bm={bm}, and tn={tn} must divide bn={bn}.")
    return (bm // tm) * (bn // tn)
