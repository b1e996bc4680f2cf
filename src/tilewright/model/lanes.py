"""Which address each lane of a warp gives: strides, rows, swizzled rows, expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.errors import InputError
from tilewright.model.access import Access
from tilewright.model.lane_expression import Expression, parse

Swizzle = Callable[[int, int, int], int]  # row, chunk, lane -> what is XORed to the chunk

MOST_ADDRESS = 1 << 48  # no memory reaches so far
SOURCE_PITCH = 8192  # bytes between rows of global memory: 4096 elements of 16 bits


@dataclass(frozen=True, slots=True)
class Place:
    """`lane` names row `row` of a matrix, `column` bytes into it."""

    lane: int
    row: int
    column: int


def strided(access: Access, stride: int) -> list[int]:
    """Lane n at element n * stride, elements being as wide as the access."""
    return [lane * stride * access.width for lane in range(access.lanes)]


def places(access: Access, lanes_per_row: int, pitch: int | None = None) -> list[Place]:
    """Lanes side by side in rows, `lanes_per_row` a row; 1 is a column.

    Raises: InputError for more lanes than a row of `pitch` bytes, where given, has room for.

    Of ldmatrix and stmatrix lanes walk down the rows of the first 8x8 matrices and then go on
    16 bytes to the right after 16 rows: the order that mma wants.
    """
    if access.is_matrix:
        return [Place(n, n % 16, n // 16 * 16) for n in range(access.lanes)]
    if not 1 <= lanes_per_row <= access.lanes:
        raise InputError(f"lanes_per_row={lanes_per_row} must be 1..{access.lanes}.")
    if pitch is not None and lanes_per_row * access.width > pitch:
        raise InputError(
            f"lanes_per_row={lanes_per_row} lanes of {access.width} bytes do not fit a row of "
            f"{pitch} bytes; at most {pitch // access.width} do."
        )
    return [
        Place(n, n // lanes_per_row, n % lanes_per_row * access.width) for n in range(access.lanes)
    ]


def addresses(where: list[Place], pitch: int, chunk: int, swizzle: Swizzle | None) -> list[int]:
    """Byte addresses of places in rows `pitch` bytes apart, chunks of `chunk` bytes swizzled.

    Raises: InputError for a swizzle that leaves the row.
    """
    found = []
    for place in where:
        column = place.column
        if swizzle is not None:
            number = column // chunk
            moved = number ^ swizzle(place.row, number, place.lane)
            if moved < 0 or (moved + 1) * chunk > max(pitch, (number + 1) * chunk):
                raise InputError(
                    f"the swizzle moves chunk {number} of row {place.row} to {moved}, beyond the "
                    f"{pitch // chunk} chunks of {chunk} bytes in a row; mask it, as in (row>>1)&3."
                )
            column = moved * chunk + column % chunk
        found.append(place.row * pitch + column)
    return found


def swizzle_of(text: str) -> Swizzle:
    """From an expression of row, chunk and lane, as in "(row>>1)&3"."""
    expression = parse(text, ("row", "chunk", "lane"), "swizzle")
    return lambda row, chunk, lane: expression({"row": row, "chunk": chunk, "lane": lane})


def lane_values(text: str, lanes: int, what: str) -> list[int]:
    """An expression of the lane for each lane, or `lanes` expressions between commas."""
    each = text.split(",")
    if len(each) not in (1, lanes):
        raise InputError(
            f"{what} lists {len(each)} values; give one expression of the lane, or {lanes}."
        )
    if len(each) == 1:
        each *= lanes
    parsed: dict[str, Expression] = {one: parse(one, ("lane",), what) for one in set(each)}
    return [parsed[one]({"lane": lane}) for lane, one in enumerate(each)]


def check_addresses(access: Access, values: list[int], what: str) -> None:
    """Raises: InputError for an address that is negative, beyond 48 bits or no multiple of the
    width."""
    for lane, value in enumerate(values):
        if value >= MOST_ADDRESS:
            raise InputError(
                f"{what}: lane {lane} has an address beyond 48 bits; give a smaller one."
            )
        if value < 0:
            raise InputError(f"{what}: lane {lane} has the address {value}; they count from 0.")
        if value % access.width:
            raise InputError(
                f"{what}: lane {lane} has the address {value}, no multiple of the {access.width} "
                f"bytes that {access.name} moves; the hardware faults there."
            )


def padded_pitch(
    access: Access, where: list[Place], pitch: int, ideal: int, most: int = 64
) -> int | None:
    """The next wider pitch, in bytes, at which the access costs `ideal` wavefronts, if any.

    Wider by steps of the access's width, at most `most` of them.
    """
    for more in range(1, most + 1):
        wider = pitch + more * access.width
        shared = addresses(where, wider, access.width, None)
        if access.cost(shared, shared).wavefronts <= ideal:
            return wider
    return None
