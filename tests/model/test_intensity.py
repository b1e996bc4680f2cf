"""Intensity of a tile: the calculator of the roadmap, and its formula step by step."""

from __future__ import annotations

import pytest

from tilewright.errors import InputError
from tilewright.model.intensity import tile_bytes, tile_intensity, tile_threads


def test_the_roadmaps_example() -> None:
    bm, bn, bk, tm, tn = 128, 128, 8, 8, 8
    assert tile_bytes(bm, bn, bk, 4) == 8192
    assert tile_intensity(bm, bn, 4) == 32.0
    assert tile_threads(bm, bn, tm, tn) == 256
    assert bm * bn // tile_threads(bm, bn, tm, tn) == tm * tn == 64  # accumulators of a thread


@pytest.mark.parametrize(("side", "flop_per_byte"), [(32, 8.0), (64, 16.0), (128, 32.0)])
def test_square_fp32_tiles(side: int, flop_per_byte: float) -> None:
    assert tile_intensity(side, side, 4) == flop_per_byte


@pytest.mark.parametrize("bk", [8, 16, 64])
def test_intensity_is_the_operations_of_a_step_over_its_bytes(bk: int) -> None:
    bm, bn, element_bytes = 128, 256, 2
    step = 2 * bm * bn * bk / tile_bytes(bm, bn, bk, element_bytes)
    assert tile_intensity(bm, bn, element_bytes) == pytest.approx(step)


def test_sizes_that_are_not_positive_are_refused() -> None:
    with pytest.raises(InputError, match=r"bn=0 must be positive\."):
        tile_intensity(128, 0, 4)
    with pytest.raises(InputError, match=r"bk=-8 must be positive\."):
        tile_bytes(128, 128, -8, 4)
    with pytest.raises(InputError, match=r"tm=7 must divide bm=128"):
        tile_threads(128, 128, 7, 8)
