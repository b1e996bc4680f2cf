"""From what is asked for, as forms, to a Job: the request that is planned, and its launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.dtypes import DType
from tilewright.errors import InputError
from tilewright.gemm.chain import Chain, check_shapes
from tilewright.gemm.collapse import Collapsed, collapse, matrix, overlaps_itself
from tilewright.gemm.form import Form, packed
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.part import Part
from tilewright.gemm.request import Request
from tilewright.gemm.shapes import (
    Shapes,
    Strides,
    check_extents,
    factor_strides,
    product_shapes,
    result_strides,
)

FACTORS = ("a", "b")


@dataclass(frozen=True)
class Link:
    """A part of the chain before its operands' places are known.

    `make` gets, by keywords, the matrices of `operands`, whose names are those of `Asked.others`,
    and what is `fixed` already. `columns` is the part's: 2 for a gate.
    """

    make: Callable[..., Part]
    operands: tuple[tuple[str, str], ...] = ()  # keyword, name
    fixed: tuple[tuple[str, object], ...] = ()
    columns: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.operands)

    def part(self, matrices: Mapping[str, Matrix], width: int) -> Part:
        """The part, among operands at these places. A gate has `width` columns of results."""
        words: dict[str, object] = {keyword: matrices[name] for keyword, name in self.operands}
        if self.columns > 1:
            words["width"] = width
        return self.make(**{**words, **dict(self.fixed)})


@dataclass(frozen=True)
class Asked:
    """A product as the caller states it, without memory or numbers.

    `others` are the operands of the chain, by their names. `out` is None where the result is to
    be made.
    """

    a: Form
    b: Form
    out: Form | None
    out_dtype: DType
    chain: tuple[Link, ...] = ()
    others: tuple[tuple[str, Form], ...] = ()
    deterministic: bool = True
    batch_invariant: bool = False


@dataclass(frozen=True)
class Job:
    """What is to be done: `request` once for each of `offsets`, the bytes to go from each operand's
    first element. Without a request the result has no elements.

    With `zeros` K is 0: in the place of a and b stands one element, zero, so that the chain gets
    sums of nothing.
    """

    shape: tuple[int, ...]
    dtype: DType
    request: Request | None
    offsets: tuple[Mapping[str, int], ...] = ({},)
    zeros: bool = False


@lru_cache(maxsize=4096)
def arrange(asked: Asked) -> Job:
    """Raises: InputError, naming the argument, for shapes that do not fit and for an `out` whose
    elements share places or that is not as large as the result."""
    shapes = product_shapes(asked.a, asked.b)
    check_extents(shapes)
    columns = _columns(asked.chain)
    shape = shapes.result(columns)
    out = asked.out or packed("out", asked.out_dtype, shape)
    check_out(out, shape)
    operands = _operands(asked, shapes, columns, out)
    if 0 in shape:
        return Job(shape, out.dtype, None)
    merged = collapse(shapes.batch, shapes.m, operands)
    matrices = _matrices(operands, merged, shapes, columns, asked.chain)
    width = shapes.n // columns
    chain = Chain(link.part(matrices, width) for link in asked.chain)
    check_shapes(chain, merged.m, width)
    a, b = matrices["a"], matrices["b"]
    if shapes.k == 0:
        a, b = _nothing(a, merged.m, 1), _nothing(b, 1, shapes.n)
    request = Request(
        a,
        b,
        matrices["out"],
        merged.batch,
        chain,
        asked.deterministic,
        asked.batch_invariant,
    )
    return Job(shape, out.dtype, request, merged.offsets, shapes.k == 0)


def _columns(chain: tuple[Link, ...]) -> int:
    gates = [link.columns for link in chain if link.columns > 1]
    if len(gates) > 1:
        raise InputError(
            f"the chain has {len(gates)} gates, and each takes two columns of the product; give "
            "one."
        )
    return gates[0] if gates else 1


def check_out(out: Form, shape: tuple[int, ...]) -> None:
    """Raises: InputError for an `out` of another shape or whose elements share places."""
    check_out_shape(out, shape)
    if overlaps_itself(out):
        raise InputError(
            f"out has the strides {out.strides} for the shape {out.shape}: several elements of "
            "the result would share one place; give an array with a place for each."
        )


def check_out_shape(out: Form, shape: tuple[int, ...]) -> None:
    """Raises: InputError for an `out` of another shape."""
    if out.shape != shape:
        raise InputError(f"out has the shape {out.shape}, and the result {shape}.")


def _operands(
    asked: Asked, shapes: Shapes, columns: int, out: Form
) -> dict[str, tuple[Form, Strides]]:
    """All operands, each with its strides among the dimensions of the result."""
    forms = dict(asked.others)
    found = {
        "a": (asked.a, factor_strides(asked.a, shapes, left=True)),
        "b": (asked.b, factor_strides(asked.b, shapes, left=False)),
    }
    taken = 1  # columns of the product that a column has become, so far in the chain
    for link in asked.chain:
        for name in link.names:
            found[name] = (forms[name], result_strides(forms[name], shapes, taken))
        taken *= link.columns
    found["out"] = (out, result_strides(out, shapes, columns))
    return found


def _matrices(
    operands: Mapping[str, tuple[Form, Strides]],
    merged: Collapsed,
    shapes: Shapes,
    columns: int,
    chain: tuple[Link, ...],
) -> dict[str, Matrix]:
    cols = dict.fromkeys(operands, shapes.n)
    cols["a"] = shapes.k
    past_the_gate = False
    for link in chain:
        if past_the_gate:
            cols |= dict.fromkeys(link.names, shapes.n // columns)
        past_the_gate |= link.columns > 1
    cols["out"] = shapes.n // columns
    rows = dict.fromkeys(operands, merged.m) | {"b": shapes.k}
    return {
        name: matrix(form, rows[name], cols[name], name, merged)
        for name, (form, _) in operands.items()
    }


def _nothing(like: Matrix, rows: int, cols: int) -> Matrix:
    """A matrix that is one zero everywhere: a batch of such products is a batch of zeros."""
    return Matrix(like.dtype, rows, cols, 0, 0)
