"""The block order reaches every tile once, for every grid."""

from __future__ import annotations

import re
from itertools import pairwise, product
from pathlib import Path

import pytest

import tilewright
from tilewright.errors import InputError
from tilewright.model.raster import Grid, order_named, raster, wave_reads


def tiles_of(tiles_m: int, tiles_n: int, width: int = 8) -> list[tuple[int, int]]:
    return [raster(block, tiles_m, tiles_n, width) for block in range(tiles_m * tiles_n)]


def test_every_grid_up_to_20x20_is_covered_once() -> None:
    for tiles_m, tiles_n in product(range(1, 21), repeat=2):
        assert sorted(tiles_of(tiles_m, tiles_n)) == list(product(range(tiles_m), range(tiles_n)))


@pytest.mark.parametrize(("tiles_m", "tiles_n"), [(1, 500), (500, 1), (64, 67), (123, 45)])
@pytest.mark.parametrize("width", [1, 3, 8, 1000])
def test_large_grids_are_covered_once(tiles_m: int, tiles_n: int, width: int) -> None:
    covered = sorted(tiles_of(tiles_m, tiles_n, width))
    assert covered == list(product(range(tiles_m), range(tiles_n)))


def test_panels_are_walked_row_by_row() -> None:
    assert tiles_of(2, 3, width=2) == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]


def test_the_articles_formula_leaves_the_grid_unless_its_width_divides_it() -> None:
    """The order this one replaces: with fewer than 8 columns, blocks run past the last one."""

    def article(block: int, grid_x: int, grid_y: int) -> tuple[int, int]:
        return block // 8 % grid_y, block % 8 + block // (8 * grid_y) * 8

    def covers(tiles_m: int, tiles_n: int) -> bool:
        tiles = [article(block, tiles_n, tiles_m) for block in range(tiles_m * tiles_n)]
        return sorted(tiles) == list(product(range(tiles_m), range(tiles_n)))

    assert covers(2, 8)
    assert covers(5, 16)
    assert not covers(2, 2)
    assert article(2, 2, 2) == (0, 2)  # column 2 of a grid of two columns
    assert not covers(3, 12)
    assert [n for n in range(1, 25) if covers(3, n)] == [8, 16, 24]


def test_the_kernels_use_the_same_formula() -> None:
    header = Path(tilewright.__file__).parent / "cuda" / "tile" / "raster.cuh"
    body = " ".join(re.sub(r"//.*", "", header.read_text()).split())
    assert "panel = id / (WIDTH * tiles_m), first = panel * WIDTH;" in body
    assert "width = min(WIDTH, tiles_n - first), inside = id - first * tiles_m;" in body
    assert "return {inside / width, first + inside % width};" in body


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((6, 2, 3), r"block=6 must be 0\.\.5\."),
        ((-1, 2, 3), r"block=-1 must be 0\.\.5\."),
        ((0, 0, 3), r"tiles_m=0 must be positive\."),
        ((0, 2, 3, 0), r"width=0 must be positive\."),
    ],
)
def test_blocks_outside_the_grid_are_refused(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        raster(*arguments)


@pytest.mark.parametrize(
    "name", ["rows", "columns", "panels:1", "panels:8", "groups:3", "serpentine:1", "serpentine:4"]
)
def test_every_order_covers_the_grid_once(name: str) -> None:
    order = order_named(name)
    for tiles_m, tiles_n in ((1, 1), (5, 7), (16, 3), (1, 40)):
        walked = [order.tile(block, tiles_m, tiles_n) for block in range(tiles_m * tiles_n)]
        assert sorted(walked) == list(product(range(tiles_m), range(tiles_n)))


@pytest.mark.parametrize(("tiles_m", "tiles_n", "width"), [(5, 12, 4), (3, 7, 2), (1, 9, 3)])
def test_a_serpentine_goes_on_in_the_row_where_a_panel_ends(
    tiles_m: int, tiles_n: int, width: int
) -> None:
    order = order_named(f"serpentine:{width}")
    rows = [order.tile(block, tiles_m, tiles_n)[0] for block in range(tiles_m * tiles_n)]
    assert all(abs(after - before) <= 1 for before, after in pairwise(rows))
    assert rows[: tiles_m * width] == [row for row in range(tiles_m) for _ in range(width)]


def test_groups_are_tritons() -> None:
    """GROUP_SIZE_M of Triton's matmul tutorial, which walks groups of rows column by column."""
    tiles_m, tiles_n, group = 10, 6, 4
    order = order_named(f"groups:{group}")
    for pid in range(tiles_m * tiles_n):
        first = pid // (group * tiles_n) * group
        height = min(tiles_m - first, group)
        inside = pid % (group * tiles_n)
        expected = first + inside % height, inside // height
        assert order.tile(pid, tiles_m, tiles_n) == expected


def test_a_wave_that_holds_the_whole_grid_reads_everything_once() -> None:
    grid = Grid(m=300, n=500, k=64, bm=128, bn=128, element_bytes=2)
    (wave,) = wave_reads(order_named("rows"), grid, 1000)
    assert (wave.blocks, wave.rows, wave.columns) == (12, 3, 4)
    assert wave.bytes == grid.least_bytes == 2 * 64 * 800
    assert grid.read_bytes == 2 * 64 * (4 * 300 + 3 * 500)


def test_a_wave_of_one_block_shares_nothing() -> None:
    grid = Grid(m=300, n=500, k=64, bm=128, bn=128, element_bytes=2)
    reads = wave_reads(order_named("panels:2"), grid, 1)
    assert sum(wave.bytes for wave in reads) == grid.read_bytes
