"""Finds the XOR swizzle of a tile whose accesses cost least, by trying the whole family.

A tile lies in rows of `pitch` bytes. A swizzle moves whole chunks of 2^k bytes inside their row:
`chunk ^ (((row >> shift) & (2^bits - 1)) << up)`. Every access of the whole tile is priced by
model.banks, so that what comes out is no guess: either the best of the family, or a proof that
the family has none without conflicts. Where the pitch is a power of two the same map is CuTe's
Swizzle<B, M, S> of the element's index.

Cost: 0.01 to 1 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.errors import InputError
from tilewright.model.access import Access, access_named
from tilewright.model.lanes import SOURCE_PITCH

_PATTERNS = ("row", "column", "fragment")
_WARP = 32
_MOST_WORK = 1 << 25  # lanes of all accesses under all candidates; about 0.4 us each


@dataclass(frozen=True, slots=True)
class Xor:
    """chunk ^ (((row >> shift) & mask) << up), chunks of `chunk` bytes; 0 bits move nothing."""

    chunk: int
    bits: int = 0
    shift: int = 0
    up: int = 0

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1

    def of(self, row: int) -> int:
        """What is XORed to a byte's place in the row."""
        return ((row >> self.shift & self.mask) << self.up) * self.chunk

    def words(self) -> str:
        """As an expression of row, the one that `explain banks --swizzle` takes."""
        if not self.bits:
            return "0"
        shifted = f"(row>>{self.shift})" if self.shift else "row"
        masked = f"{shifted}&{self.mask}"
        return f"({masked})<<{self.up}" if self.up else masked

    def macro(self, element_bytes: int, name: str = "SWIZZLE") -> str:
        """A CUDA macro of row and column, both in elements."""
        if not self.bits:
            return f"#define {name}(row, col) (col)"
        row = f"((row) >> {self.shift})" if self.shift else "(row)"
        left = _log2(self.chunk // element_bytes) + self.up
        moved = f"({row} & 0x{self.mask:x})"
        moved = f"({moved} << {left})" if left else moved
        return f"#define {name}(row, col) ((col) ^ {moved})"

    def cute(self, pitch: int, element_bytes: int) -> tuple[int, int, int] | None:
        """B, M and S of CuTe's Swizzle of the index in elements; None for other pitches."""
        if pitch & (pitch - 1):
            return None
        base = _log2(self.chunk // element_bytes) + self.up
        row = _log2(pitch // element_bytes) + self.shift
        return self.bits, base, row - base


def tma_name(swizzle: Xor, pitch: int) -> str | None:
    """The swizzle mode of a tensor map that moves the same chunks in rows of this pitch, if any.

    TMA's pattern repeats from an address that is a multiple of 8 such rows of 128 bytes.
    """
    same = swizzle.chunk == 16 and not swizzle.up and pitch == 16 << swizzle.bits
    modes = {1: (2, "32B"), 2: (1, "64B"), 3: (0, "128B")}
    shift, name = modes.get(swizzle.bits, (0, None))
    return name if same and shift == swizzle.shift else None


def cute_swizzle(index: int, b: int, m: int, s: int) -> int:
    """CuTe's Swizzle<b, m, s>: bits m..m+b-1 of an index, XORed with those s places above."""
    mask = ((1 << b) - 1) << (m + s)
    return index ^ ((index & mask) >> s)


@dataclass(frozen=True, slots=True)
class Use:
    """An access and how the warp's lanes lie in the tile.

    `row`: side by side along a row, on into the next; `column`: one below the other;
    `fragment`: four side by side in each of 8 rows, as mma keeps its accumulators.
    ldmatrix and stmatrix take 8 rows a matrix and need none of them.
    """

    access: Access
    pattern: str = "row"

    @property
    def name(self) -> str:
        plain = self.access.is_matrix or self.pattern == "row"
        return self.access.name if plain else f"{self.access.name}:{self.pattern}"


def use_named(text: str) -> Use:
    """ldmatrix, cp.async.cg.16, st.4:fragment, ld.4:column and their like. Raises: InputError."""
    name, _, pattern = text.partition(":")
    access = access_named(name)
    if access.is_global:
        raise InputError(f"{text} does not touch shared memory; name an access that does.")
    if pattern and (pattern not in _PATTERNS or access.is_matrix or access.is_copy):
        raise InputError(
            f"{text}: after ld and st may stand :{', :'.join(_PATTERNS)}; others have none."
        )
    return Use(access, pattern or "row")


@dataclass(frozen=True, slots=True)
class TileShape:
    """`rows` rows of `pitch` bytes, all of them elements of `element_bytes`."""

    rows: int
    pitch: int
    element_bytes: int

    def __post_init__(self) -> None:
        if self.element_bytes not in (1, 2, 4, 8):
            raise InputError(f"elem={self.element_bytes} must be 1, 2, 4 or 8 bytes.")
        if self.rows < 1 or self.pitch < 1 or self.pitch % self.element_bytes:
            raise InputError(
                f"rows={self.rows} and pitch={self.pitch} must be positive, the pitch a multiple "
                f"of elem={self.element_bytes}."
            )
        if self.rows * self.pitch > 1 << 18:
            raise InputError(
                f"{self.rows} rows of {self.pitch} bytes are more than the 256 KiB that fit an SM."
            )


Lane = tuple[int, int]  # row, byte in the row


def warps(use: Use, tile: TileShape) -> list[list[Lane]]:
    """The lanes of every access that covers the tile once.

    Raises: InputError for a tile that the access does not cover evenly.
    """
    access, width = use.access, use.access.width
    if use.pattern == "row" and not access.is_matrix:
        return _row_by_row(use, tile)
    down, across = _extent(use)
    if tile.pitch % (across * width) or tile.rows % down:
        raise InputError(
            f"{use.name} takes {down} rows and {across * width} bytes at a time; a tile of "
            f"{_rows(tile)} of {tile.pitch} bytes is no multiple of them."
        )
    lanes = 8 if access.is_matrix else _WARP
    return [
        [(row + n // across, column + n % across * width) for n in range(lanes)]
        for row in range(0, tile.rows, down)
        for column in range(0, tile.pitch, across * width)
    ]


def _row_by_row(use: Use, tile: TileShape) -> list[list[Lane]]:
    """Lanes side by side along a row and on into the next, whatever a row's length."""
    width, moved = use.access.width, _WARP * use.access.width
    if tile.pitch % width or tile.rows * tile.pitch % moved:
        raise InputError(
            f"{use.name} moves {moved} bytes at a time, {width} a lane; a tile of {_rows(tile)} of "
            f"{tile.pitch} bytes is no multiple of them."
        )
    return [
        [divmod(first + n * width, tile.pitch) for n in range(_WARP)]
        for first in range(0, tile.rows * tile.pitch, moved)
    ]


def _rows(tile: TileShape) -> str:
    return "1 row" if tile.rows == 1 else f"{tile.rows} rows"


def _extent(use: Use) -> tuple[int, int]:
    """Rows and lanes side by side that one access takes, one matrix of ldmatrix."""
    if use.access.is_matrix:
        return 8, 1
    return (_WARP, 1) if use.pattern == "column" else (8, 4)


def price(use: Use, tile: TileShape, swizzle: Xor, limit: int | None = None) -> tuple[int, int]:
    """Wavefronts and ideal ones of all accesses that cover the tile; stops beyond `limit`."""
    kind = _single(use)
    total = ideal = 0
    for lanes in warps(use, tile):
        shared = [row * tile.pitch + (column ^ swizzle.of(row)) for row, column in lanes]
        source = [row * SOURCE_PITCH + column for row, column in lanes]
        cost = kind.cost(shared, source)
        total += cost.wavefronts
        ideal += cost.wavefronts_ideal
        if limit is not None and total > limit:
            break
    return total, ideal


def _single(use: Use) -> Access:
    """Matrices of one instruction never conflict, so that one at a time says all."""
    if not use.access.is_matrix:
        return use.access
    return access_named(f"{use.access.family}.x1")


@dataclass(frozen=True, slots=True)
class Found:
    """The best swizzle and what reads and writes of the tile cost with it and without any.

    Each cost is (wavefronts, ideal); `tried` members of the family were compared.
    """

    swizzle: Xor
    read: tuple[int, int]
    write: tuple[int, int]
    plain_read: tuple[int, int]
    plain_write: tuple[int, int]
    tried: int

    @property
    def clean(self) -> bool:
        """Reads without conflicts, writes no worse than without a swizzle."""
        return self.read[0] <= self.read[1] and self.write[0] <= self.plain_write[0]


def family(tile: TileShape, chunk: int) -> Iterator[Xor]:
    """All XOR swizzles that stay inside the row, those of fewer bits first; first none at all."""
    yield Xor(chunk)
    chunks, row_bits = tile.pitch // chunk, max(tile.rows - 1, 0).bit_length()
    bits = 1
    while chunks % (1 << bits) == 0 and bits <= row_bits:
        for shift in range(row_bits - bits + 1):
            up = 0
            while chunks % (1 << (bits + up)) == 0:
                yield Xor(chunk, bits, shift, up)
                up += 1
        bits += 1


def search(tile: TileShape, read: Use, write: Use) -> Found:
    """Least wavefronts of reads, then of writes, then the fewest bits.

    Chunks are as wide as the wider of both accesses, which keeps them aligned.
    Raises: InputError for a pitch that is no multiple of a chunk, and for tiles that the
    accesses do not cover evenly.
    """
    chunk = max(read.access.width, write.access.width, tile.element_bytes)
    if tile.pitch % chunk:
        raise InputError(
            f"pitch={tile.pitch} must be a multiple of the {chunk} bytes that move together."
        )
    work = sum(1 for _ in family(tile, chunk)) * tile.rows * tile.pitch
    work = work // read.access.width + work // write.access.width
    if work > _MOST_WORK:
        raise InputError(
            f"{tile.rows} rows of {tile.pitch} bytes take too many accesses to try each swizzle "
            "on; fewer rows say as much, since the banks repeat."
        )
    plain = Xor(chunk)
    plain_read, plain_write = price(read, tile, plain), price(write, tile, plain)
    best, read_cost, write_cost, tried = plain, plain_read, plain_write, 0
    for candidate in family(tile, chunk):
        tried += 1
        reads = price(read, tile, candidate, read_cost[0])
        if reads[0] > read_cost[0]:
            continue
        limit = write_cost[0] if reads[0] == read_cost[0] else None
        writes = price(write, tile, candidate, limit)
        if (reads[0], writes[0]) < (read_cost[0], write_cost[0]):
            best, read_cost, write_cost = candidate, reads, writes
    return Found(best, read_cost, write_cost, plain_read, plain_write, tried)


def _log2(size: int) -> int:
    return size.bit_length() - 1
