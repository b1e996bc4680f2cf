"""The shape rules of a product, which are numpy.matmul's, and what broadcasts to its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import InputError
from tilewright.gemm.form import Form

_LARGEST = 2**31 - 1  # the kernels take extents as int


@dataclass(frozen=True)
class Shapes:
    """Matrices a[m, k] and b[k, n], for each index of the broadcast dimensions `batch`.

    A vector counts as one row on the left, one column on the right; the result then lacks that
    dimension (`has_rows`, `has_cols`).
    """

    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    has_rows: bool = True
    has_cols: bool = True

    def result(self, columns: int = 1) -> tuple[int, ...]:
        """The shape of the result where `columns` columns of the product become one.

        Raises: InputError where a gate has no pairs of columns to take.
        """
        if columns > 1 and (not self.has_cols or self.n % columns):
            raise InputError(
                f"b has {self.n} column{'s' * (self.n != 1)}, and a gate takes pairs: the first "
                "half of b's columns is the gate, the second half is what it gates."
            )
        rows = (self.m,) if self.has_rows else ()
        return (*self.batch, *rows, *((self.n // columns,) if self.has_cols else ()))


@dataclass(frozen=True)
class Strides:
    """How an operand lies beside the others: elements between neighbours, 0 where broadcast."""

    batch: tuple[int, ...]
    row: int
    col: int


def product_shapes(a: Form, b: Form) -> Shapes:
    """The extents of a · b. Raises: InputError where they do not fit, as numpy.matmul does."""
    for form in (a, b):
        if not form.shape:
            raise InputError(
                f"{form.argument} has no dimensions, and matmul takes matrices; "
                "multiply by a number with alpha."
            )
    m, k = (1, *a.shape)[-2:]
    rows, n = (*b.shape, 1)[:2] if len(b.shape) == 1 else b.shape[-2:]
    if rows != k:
        what = "elements" if len(b.shape) == 1 else "rows"
        of_a = "elements" if len(a.shape) == 1 else "columns"
        raise InputError(
            f"{b.argument} has {rows} {what} and {a.argument} has {k} {of_a}; they must be equal "
            f"(shapes {a.shape} and {b.shape})."
        )
    batch = _broadcast(a, b)
    return Shapes(batch, m, n, k, len(a.shape) > 1, len(b.shape) > 1)


def check_extents(shapes: Shapes) -> None:
    """Raises: InputError for extents that no kernel takes; not asked of those without a value, as
    tracing has them, which would be pinned."""
    for name, extent in (("m", shapes.m), ("n", shapes.n), ("k", shapes.k)):
        if extent > _LARGEST:
            raise InputError(f"{name}={extent} is above {_LARGEST}; split the product.")


def _broadcast(a: Form, b: Form) -> tuple[int, ...]:
    left, right = a.shape[:-2], b.shape[:-2]
    rank = max(len(left), len(right))
    pairs = zip(_padded(left, rank), _padded(right, rank), strict=True)
    batch = []
    for one, other in pairs:
        if one != other and 1 not in (one, other):
            raise InputError(
                f"{a.argument} is a batch of {left} matrices and {b.argument} of {right}, which "
                f"do not broadcast: {one} is not {other}."
            )
        batch.append(other if one == 1 else one)
    return tuple(batch)


def _padded(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    return (*(1,) * (rank - len(shape)), *shape)


def factor_strides(form: Form, shapes: Shapes, *, left: bool) -> Strides:
    """Those of a (`left`) or b; a vector is one row of a, one column of b."""
    if len(form.shape) == 1:
        row, col = (0, form.strides[0]) if left else (form.strides[0], 0)
        return Strides((0,) * len(shapes.batch), row, col)
    batch = _stretched(form.shape[:-2], form.strides[:-2], shapes.batch)
    return Strides(batch, form.strides[-2], form.strides[-1])


def result_strides(form: Form, shapes: Shapes, columns: int = 1) -> Strides:
    """Those of an operand that broadcasts to the result, as c, a bias or a residual do.

    Raises: InputError where it does not broadcast to the result's shape.
    """
    target = check_broadcast(form, shapes, columns)
    strides = list(_stretched(form.shape, form.strides, target))
    col = strides.pop() if shapes.has_cols else 0
    row = strides.pop() if shapes.has_rows else 0
    return Strides(tuple(strides), row, col)


def check_broadcast(form: Form, shapes: Shapes, columns: int = 1) -> tuple[int, ...]:
    """The shape of the result, or with `columns` 1 the product's, to which the operand broadcasts.

    Raises: InputError where it does not.
    """
    target = shapes.result(columns)
    missing = len(target) - len(form.shape)
    fits = missing >= 0 and all(
        extent in (wanted, 1) for extent, wanted in zip(form.shape, target[missing:], strict=True)
    )
    if not fits:
        of_what = "the product" if columns == 1 else "the result"
        raise InputError(
            f"{form.argument} has the shape {form.shape}, which does not broadcast to "
            f"{target}, the shape of {of_what}."
        )
    return target


def _stretched(
    shape: Sequence[int], strides: Sequence[int], target: Sequence[int]
) -> tuple[int, ...]:
    """Strides for the target's dimensions; 0 for those that the array lacks or has once."""
    given = [stride if extent > 1 else 0 for extent, stride in zip(shape, strides, strict=True)]
    return (*(0,) * (len(target) - len(given)), *given)
