"""Chain: parts of an epilogue one after the other, their order, C++ type and parameter.

What makes sense: alpha is of the product, so that it comes first; C and bias are added to sums, so
that nothing but scales and each other comes before them; there is one gate at most, and what comes
before it is done to the gate and to what it gates alike, on 2·n columns (a residual, which has the
result's n, comes after it).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from tilewright.errors import InputError
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.step import Struct

if TYPE_CHECKING:
    from tilewright.gemm.matrix import Matrix
    from tilewright.gemm.part import Part

STRUCT = "EPILOGUE"  # the macro with the C++ type, and the record whose macros assert its layout
_PLAIN = ("tile::Plain", "tile/epilogue.cuh")
_HEADER = "tile/epilogue_chain.cuh"
Stage = Literal["product", "linear", "sum", "any", "result"]


class Chain(tuple["Part", ...]):
    """A tuple of parts, first to last; `chain >> part` is a longer one.

    Raises: InputError for an order that makes no sense.
    """

    __slots__ = ()

    def __new__(cls, parts: Iterable[Part] = ()) -> Chain:
        chain = super().__new__(cls, parts)
        check_order(chain)
        return chain

    def __rshift__(self, other: Part | Chain) -> Chain:
        return Chain((*self, *(other if isinstance(other, Chain) else (other,))))


class Composable:
    """Gives a part the operator, `part >> part` being a chain, and a `stage`: where it may stand.

    "product" comes first; "sum" stands after no others than "product", "linear" and "sum"; "result"
    stands after a gate.
    """

    stage: Stage = "any"

    def __rshift__(self: Part, other: Part | Chain) -> Chain:
        return Chain((self,)) >> other


def check_order(parts: Sequence[Part]) -> None:
    """Raises InputError, with the way out, for parts whose order makes no sense."""
    gates = [place for place, part in enumerate(parts) if part.columns == 2]
    if len(gates) > 1:
        raise InputError("the epilogue has two gates; there is one pair of columns, keep one gate.")
    gate = gates[0] if gates else -1
    for place, part in enumerate(parts):
        name, before = type(part).__name__, parts[:place]
        if _stage(part) == "product" and before:
            first = type(before[0]).__name__
            raise InputError(f"{name} is of the product: put it before {first}.")
        late = [each for each in before if _stage(each) == "any" or _stage(each) == "result"]
        if _stage(part) == "sum" and late:
            raise InputError(
                f"{name} is added to the sum: put it before {type(late[0]).__name__}, or add a "
                "Residual there."
            )
        if _stage(part) == "result" and place < gate:
            after = type(parts[gate]).__name__
            raise InputError(f"{name} has the result's columns: put it after the {after}.")
    _check_names(parts)


def _stage(part: Part) -> Stage:
    return part.stage if isinstance(part, Composable) else "any"


def _check_names(parts: Sequence[Part]) -> None:
    seen: dict[str, Matrix] = {}
    for part in parts:
        for name, matrix in part.operands.items():
            if not _same(seen.setdefault(name, matrix), matrix):
                raise InputError(f"two operands are called {name!r}; give one another name.")


def _same(one: object, other: object) -> bool:
    """Also of arrays, as a user has them in the matrices' places: they have no one equality."""
    return one is other or (isinstance(one, Matrix) and one == other)


def check_shapes(parts: Sequence[Part], m: int, n: int) -> None:
    """Raises InputError unless all operands are m×n, and m×2·n before a gate."""
    gate = max((place for place, part in enumerate(parts) if part.columns == 2), default=-1)
    for place, part in enumerate(parts):
        cols = 2 * n if place < gate else n
        for name, matrix in part.operands.items():
            if (matrix.rows, matrix.cols) != (m, cols):
                why = " (the gate's columns, then those it gates)" if cols != n else ""
                raise InputError(
                    f"{name} is {matrix.rows}×{matrix.cols} and must be {m}×{cols}{why}; a vector "
                    "has a stride of 0."
                )
        if place == gate and getattr(part, "width", n) != n:
            raise InputError(f"the gate's width must be {n}, the result's columns.")


def chain_columns(parts: Sequence[Part]) -> int:
    """How many columns of the product one of the result takes: 2 with a gate."""
    return max((part.columns for part in parts), default=1)


def chain_cpp(parts: Sequence[Part]) -> str:
    """The C++ type, the macro EPILOGUE: "tile::Chain<tile::Alpha, …>", or "tile::Plain"."""
    return f"tile::Chain<{', '.join(part.cpp for part in parts)}>" if parts else _PLAIN[0]


def chain_headers(parts: Sequence[Part]) -> tuple[str, ...]:
    """The headers that have the type, by their names under cuda/."""
    if not parts:
        return (_PLAIN[1],)
    return (_HEADER, *sorted({part.header for part in parts}))


def chain_struct(parts: Sequence[Part]) -> Struct:
    """The kernel's parameter: the fields of all parts in order, "p0_alpha" for the first's alpha.

    Raises: InputError for a part whose fields are no multiple of 8 bytes: the next one's would lie
    elsewhere in C++.
    """
    fields, values = [], []
    for place, part in enumerate(parts):
        for name, kind, value in part.fields:
            fields.append((f"p{place}_{name}", kind))
            values.append((f"p{place}_{name}", value))
        if sum(kind in ("i4", "f4") for _, kind, _ in part.fields) % 2:
            raise InputError(f"{part.cpp} has an odd number of 4-byte fields; add an unused one.")
    return Struct(STRUCT, tuple(fields), tuple(values))


def chain_defines(parts: Sequence[Part]) -> dict[str, str]:
    """The macros: EPILOGUE, and the size (an empty struct has a byte) and offsets of its fields."""
    struct = chain_struct(parts)
    sizes = struct.record.defines() if struct.fields else {f"{STRUCT}_BYTES": "1"}
    return {STRUCT: chain_cpp(parts), **sizes}
