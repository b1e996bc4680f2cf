"""Many batch dimensions as one, as many as lie so; the others become launches of their own.

Matrices that share b and follow each other like rows are rows of one larger matrix: a batch of
them is folded into M, so that b is read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from tilewright.gemm.form import Form
from tilewright.gemm.matrix import LARGEST_VECTOR, Matrix
from tilewright.gemm.shapes import Strides

_MOST_ROWS = 2**31 - 1

# One batch dimension: how often, and the elements between neighbours of each operand.
_Axis = tuple[int, dict[str, int]]


@dataclass(frozen=True)
class Collapsed:
    """`m` rows and `batch` matrices a launch; `strides` of each operand with one batch stride.

    `offsets` has a mapping for each launch: the bytes from each operand's first element on.
    """

    m: int
    batch: int
    strides: Mapping[str, Strides]
    offsets: tuple[Mapping[str, int], ...]


def collapse(
    batch: tuple[int, ...], m: int, operands: Mapping[str, tuple[Form, Strides]]
) -> Collapsed:
    """Merges the dimensions of `batch`, none of which is 0, for these operands by name."""
    rows = {name: strides.row for name, (_, strides) in operands.items()}
    axes: list[_Axis] = [
        (extent, {name: strides.batch[axis] for name, (_, strides) in operands.items()})
        for axis, extent in enumerate(batch)
        if extent > 1
    ]
    _merge(axes)
    m, rows = _fold(axes, m, rows)
    axes.sort(key=lambda axis: axis[0])
    extent, steps = axes.pop() if axes else (1, dict.fromkeys(operands, 0))
    strides = {
        name: Strides((steps[name],), rows[name], given.col)
        for name, (_, given) in operands.items()
    }
    sizes = {name: form.dtype.bytes for name, (form, _) in operands.items()}
    return Collapsed(m, extent, strides, tuple(_offsets(axes, sizes)))


def _merge(axes: list[_Axis]) -> None:
    """Joins two axes wherever, for all operands, one continues the other."""
    pairs = ((i, j) for i in range(len(axes)) for j in range(len(axes)) if i != j)
    for outer, inner in pairs:
        (count, far), (extent, near) = axes[outer], axes[inner]
        if all(far[name] == near[name] * extent for name in near):
            axes[inner] = count * extent, near
            del axes[outer]
            _merge(axes)
            return


def _fold(axes: list[_Axis], m: int, rows: dict[str, int]) -> tuple[int, dict[str, int]]:
    """Makes rows of the axes that b does not have and that continue the rows of all others."""
    for at, (extent, steps) in enumerate(axes):
        others = [name for name in steps if name != "b"]
        continues = m == 1 or all(steps[name] == rows[name] * m for name in others)
        if steps["b"] == 0 and continues and m * extent <= _MOST_ROWS:
            if m == 1:
                rows = {**rows, **{name: steps[name] for name in others}}
            del axes[at]
            return _fold(axes, m * extent, rows)
    return m, rows


def _offsets(axes: list[_Axis], sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    for place in product(*(range(extent) for extent, _ in axes)):
        yield {
            name: size * sum(i * steps[name] for i, (_, steps) in zip(place, axes, strict=True))
            for name, size in sizes.items()
        }


def matrix(form: Form, rows: int, cols: int, name: str, among: Collapsed) -> Matrix:
    """The operand as the launches see it. The stride of an extent of 1 means nothing, and is set
    so that whatever else the matrix allows stays allowed."""
    strides = among.strides[name]
    row, col = strides.row, strides.col
    pitch = LARGEST_VECTOR // form.dtype.bytes
    if rows == 1:
        row = -(-cols // pitch) * pitch if cols == 1 or col == 1 else 1
        col = col if cols > 1 else 1
    elif cols == 1:
        col = -(-rows // pitch) * pitch if row == 1 else 1
    offset = gcd(*(offsets[name] for offsets in among.offsets))
    return Matrix(
        form.dtype,
        rows,
        cols,
        row,
        col,
        strides.batch[0],
        gcd(form.alignment, offset) if offset else form.alignment,
    )


def overlaps_itself(form: Form) -> bool:
    """Whether elements of an array may share a place: a stride of 0, a window that slides.

    Interleaved axes count as well, which a walk over the strides cannot tell from it.
    """
    if prod(form.shape) <= 1:
        return False
    reach = 0
    for stride, extent in sorted(zip(map(abs, form.strides), form.shape, strict=True)):
        if extent > 1:
            if stride <= reach:
                return True
            reach += stride * (extent - 1)
    return False
