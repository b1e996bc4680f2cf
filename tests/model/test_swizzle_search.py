"""The search: its candidates stay in the row, its forms agree, and its prices are the banks'."""

from __future__ import annotations

import pytest

from tilewright.errors import InputError
from tilewright.model.swizzle import swizzle_a, swizzle_b, swizzle_c
from tilewright.model.swizzle_search import (
    TileShape,
    Xor,
    cute_swizzle,
    family,
    price,
    search,
    use_named,
    warps,
)

TILES = [TileShape(128, 64, 2), TileShape(32, 256, 2), TileShape(64, 128, 4), TileShape(16, 96, 2)]


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_every_candidate_permutes_the_chunks_of_a_row_and_undoes_itself(tile: TileShape) -> None:
    candidates = list(family(tile, 16))
    assert candidates[0] == Xor(16)
    assert len(set(candidates)) == len(candidates) > 1
    for candidate in candidates:
        for row in range(tile.rows):
            moved = [at ^ candidate.of(row) for at in range(0, tile.pitch, 16)]
            assert sorted(moved) == list(range(0, tile.pitch, 16))


@pytest.mark.parametrize("tile", TILES[:3], ids=str)
def test_the_macro_and_cute_say_what_the_search_tried(tile: TileShape) -> None:
    """The macro is C, which Python's parser of expressions reads here."""
    from tilewright.model.lane_expression import parse

    columns = tile.pitch // tile.element_bytes
    for candidate in family(tile, 16):
        _, _, body = candidate.macro(tile.element_bytes).partition("(row, col) ")
        macro = parse(body, ("row", "col"))
        words = parse(candidate.words(), ("row",))
        cute = candidate.cute(tile.pitch, tile.element_bytes)
        assert cute is not None
        for row in range(0, tile.rows, 3):
            for col in range(0, columns, 5):
                at = col * tile.element_bytes
                expected = (at ^ candidate.of(row)) // tile.element_bytes
                assert macro({"row": row, "col": col}) == expected
                assert cute_swizzle(row * columns + col, *cute) == row * columns + expected
                chunk = at // 16 ^ words({"row": row})
                assert chunk == expected * tile.element_bytes // 16


@pytest.mark.parametrize(
    ("mirror", "columns", "read", "write"),
    [
        (swizzle_a, 32, "ldmatrix", "cp.async.cg.16"),
        (swizzle_b, 128, "ldmatrix.x2.trans", "cp.async.cg.16"),
        (swizzle_c, 128, "ld.16", "st.4:fragment"),
    ],
)
def test_it_derives_the_swizzles_of_the_rungs(
    mirror: object, columns: int, read: str, write: str
) -> None:
    assert callable(mirror)
    found = search(TileShape(64, 2 * columns, 2), use_named(read), use_named(write))
    assert found.clean
    for row in range(64):
        for col in range(columns):
            assert mirror(row, col) == (2 * col ^ found.swizzle.of(row)) // 2


@pytest.mark.parametrize(
    ("use", "tile"),
    [
        ("ldmatrix", TILES[0]),
        ("cp.async.cg.16", TILES[3]),
        ("st.4:fragment", TILES[1]),
        ("ld.4:column", TILES[2]),
        ("ld.16", TILES[1]),
        ("ld.2", TILES[3]),
    ],
)
def test_the_accesses_cover_the_tile_once(use: str, tile: TileShape) -> None:
    named = use_named(use)
    touched = [
        (row, column + byte)
        for lanes in warps(named, tile)
        for row, column in lanes
        for byte in range(named.access.width)
    ]
    assert len(touched) == len(set(touched)) == tile.rows * tile.pitch


def test_lanes_go_on_into_the_next_row_where_rows_are_no_power_of_two() -> None:
    first, *_ = warps(use_named("cp.async.cg.16"), TileShape(128, 48, 2))
    assert first[:5] == [(0, 0), (0, 16), (0, 32), (1, 0), (1, 16)]
    with pytest.raises(InputError, match=r"512 bytes at a time, 16 a lane; a tile of 1 row of 48"):
        warps(use_named("cp.async.cg.16"), TileShape(1, 48, 2))


def test_a_price_stops_where_it_is_too_high() -> None:
    tile, use = TILES[0], use_named("ldmatrix")
    assert price(use, tile, Xor(16)) == (256, 64)
    assert price(use, tile, Xor(16), limit=10)[0] in range(11, 20)
