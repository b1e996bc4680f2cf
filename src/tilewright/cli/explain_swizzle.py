"""`tilewright explain swizzle`: the XOR swizzle that a tile needs, or that there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilewright.cli.explain_draw import Drawing, figures, heading, line, sentence
from tilewright.cli.options import JsonTarget, Whole
from tilewright.cli.output import check_targets, emit
from tilewright.model.swizzle_search import Found, TileShape, Use, search, tma_name, use_named

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_MOST_CHUNKS = 16  # of a row, that the picture shows


def swizzle(
    *,
    rows: Whole = 128,
    pitch: Whole = 64,
    elem: Whole = 2,
    read: str = "ldmatrix",
    write: str = "cp.async.cg.16",
    json: JsonTarget = None,
) -> int:
    """Derive the XOR swizzle with which a tile is read without bank conflicts.

    All swizzles of the form chunk ^ (((row >> s) & mask) << u) are tried, every access of the
    tile priced: what is printed is the best there is, or that there is none.

    Example: tilewright explain swizzle --rows 128 --pitch 64

    The article's: A as above, B with --rows 32 --pitch 256 --read ldmatrix.x2.trans,
    C with --pitch 256 --read ld.16 --write st.4:fragment.

    Parameters
    ----------
    rows
        Rows of the tile.
    pitch
        Bytes from row to row.
    elem
        Bytes of an element.
    read
        How a warp reads: ldmatrix, ld.16, ld.4:column (lane n in row n), st.4:fragment (4 lanes
        a row, as mma keeps C), cp.async.cg.16.
    write
        How a warp writes; the same words.
    """
    check_targets(json)
    tile = TileShape(rows, pitch, elem)
    reads, writes = use_named(read), use_named(write)
    found = search(tile, reads, writes)
    emit(
        "explain-swizzle",
        [_row(tile, reads, writes, found)],
        _picture(tile, reads, writes, found),
        json,
    )
    return 0


def _row(tile: TileShape, read: Use, write: Use, found: Found) -> dict[str, Any]:
    best = found.swizzle
    return {
        "rows": tile.rows, "pitch": tile.pitch, "elem": tile.element_bytes,
        "read": read.name, "write": write.name, "conflict_free": found.clean,
        "chunk_bytes": best.chunk, "bits": best.bits, "shift": best.shift, "up": best.up,
        "swizzle": best.words(), "macro": best.macro(tile.element_bytes),
        "cute": best.cute(tile.pitch, tile.element_bytes),
        "tma": tma_name(best, tile.pitch), "tried": found.tried,
        "read_wavefronts": found.read[0], "read_wavefronts_ideal": found.read[1],
        "read_wavefronts_plain": found.plain_read[0],
        "write_wavefronts": found.write[0], "write_wavefronts_ideal": found.write[1],
        "write_wavefronts_plain": found.plain_write[0],
    }  # fmt: skip


def _picture(tile: TileShape, read: Use, write: Use, found: Found) -> RenderableType:
    best = found.swizzle

    def draw(width: int) -> Iterator[Text]:
        yield heading(
            f"{tile.rows} rows of {tile.pitch} bytes, {tile.element_bytes} an element: "
            f"read by {read.name}, written by {write.name}"
        )
        yield from figures(
            [
                ("reads", _change(found.plain_read, found.read)),
                ("writes", _change(found.plain_write, found.write)),
            ],
            width,
        )
        yield from sentence(_verdict(found), width, "bold green" if found.clean else "bold yellow")
        if best.bits:
            yield line("")
            yield from _bits(tile, found)
            yield line("")
            yield from _rows(tile, found)
        yield line("")
        yield line((best.macro(tile.element_bytes), "cyan"))
        cute = best.cute(tile.pitch, tile.element_bytes)
        if cute is None:
            yield from sentence(
                "CuTe has no form of it: the pitch is no power of two.", width, "dim"
            )
        elif best.bits:
            yield line((f"Swizzle<{cute[0]}, {cute[1]}, {cute[2]}>", "cyan"), "   in CuTe")

        if mode := tma_name(best, tile.pitch):
            yield line((f"SWIZZLE_{mode}", "cyan"), "   of a tensor map: TMA writes the tile so")

    return Drawing(draw)


def _change(plain: tuple[int, int], swizzled: tuple[int, int]) -> str:
    return (
        f"{plain[0]:,} wavefronts without a swizzle, {swizzled[0]:,} with it ({plain[1]:,} ideal)"
    )


def _verdict(found: Found) -> str:
    family = f"{found.tried} swizzle{'s' * (found.tried != 1)} of the family"
    moved = f"whole chunks of {found.swizzle.chunk} bytes"
    if found.clean and not found.swizzle.bits:
        if found.write[0] == found.write[1]:
            return "No swizzle is needed: reads and writes have no conflicts as the tile lies."
        if found.tried == 1:
            return (
                f"Reads have no conflicts as the tile lies. Writes are above the ideal, and the "
                f"family has no swizzle that could help: XOR moves {moved} within a row only "
                "where their number is even."
            )
        return (
            f"Reads have no conflicts as the tile lies. Writes are above the ideal, and none of "
            f"all {family} makes them cheaper."
        )
    if found.clean:
        fixed = [
            name
            for name, plain, best in (
                ("reads", found.plain_read, found.read),
                ("writes", found.plain_write, found.write),
            )
            if plain[0] > best[0] == best[1]
        ]
        return (
            f"chunk ^ ({found.swizzle.words()}), {moved}, takes all conflicts out of the "
            f"{' and '.join(fixed) or 'tile'} (the best of {family})."
        )
    if found.swizzle.bits:
        return (
            f"None of all {family}, {moved}, takes all conflicts out; the best is "
            f"chunk ^ ({found.swizzle.words()})."
        )
    return f"None of all {family}, {moved}, is better than no swizzle."


def _bits(tile: TileShape, found: Found) -> Iterator[Text]:
    """Bits of the row and of the column in elements: which are XORed into which."""
    best = found.swizzle
    columns = (tile.pitch // tile.element_bytes - 1).bit_length()
    rows = max((tile.rows - 1).bit_length(), best.shift + best.bits)
    inside = (best.chunk // tile.element_bytes).bit_length() - 1
    into = range(inside + best.up, inside + best.up + best.bits)
    from_ = range(best.shift, best.shift + best.bits)
    yield line(("  row bit " + "".join(f"{bit:3}" for bit in reversed(range(rows))), "dim"))
    yield line(
        "          " + "".join("  ●" if bit in from_ else "  ·" for bit in reversed(range(rows)))
    )
    yield line(("  col bit " + "".join(f"{bit:3}" for bit in reversed(range(columns))), "dim"))
    marks = (
        "  ⊕" if b in into else "  e" if b < inside else "  ·" for b in reversed(range(columns))
    )
    yield line("          " + "".join(marks))
    yield line(("  ● is XORed to ⊕, in order; e lies inside a chunk and stays", "dim"))


def _rows(tile: TileShape, found: Found) -> Iterator[Text]:
    """Which chunk of its row lies in each place."""
    best = found.swizzle
    chunks = tile.pitch // best.chunk
    shown = min(tile.rows, max(8, min(1 << (best.shift + best.bits), 16)))
    yield line(("  which chunk lies in each place of a row", "dim"))
    for row in range(shown):
        moved = best.of(row) // best.chunk
        order = [place ^ moved for place in range(min(chunks, _MOST_CHUNKS))]
        more = " …" if chunks > _MOST_CHUNKS else ""
        yield line((f"  row {row:3}  ", "dim"), "".join(f"{chunk:3}" for chunk in order) + more)
