"""Tiles, waves and roofs: the arithmetic behind `explain tile`, by hand."""

from __future__ import annotations

import pytest

from tilewright.errors import InputError
from tilewright.gpus import gpu_named
from tilewright.model.roofline import Roof, gemm_bytes, gemm_flops, peak_tflops
from tilewright.model.tile import Tile, intensity_curve
from tilewright.model.waves import tiles, waves


def test_the_roadmaps_tile() -> None:
    tile = Tile(128, 128, 8, 8, 8, 4)
    assert (tile.bytes, tile.shared_bytes, tile.flops) == (8192, 8192, 262144)
    assert (tile.intensity, tile.threads, tile.accumulators) == (32.0, 256, 64)
    assert tile.register_intensity == 2.0
    assert Tile(128, 128, 8, 8, 8, 4, stages=3).shared_bytes == 3 * 8192


def test_the_register_estimate_stops_where_the_compiler_spills() -> None:
    assert Tile(128, 128, 8, 8, 8, 4).registers_estimate == 112
    assert Tile(256, 256, 8, 16, 16, 4).registers_estimate == 255


@pytest.mark.parametrize("sizes", [(0, 128, 8, 8, 8), (128, 128, 8, 7, 8), (128, 128, -1, 8, 8)])
def test_tiles_that_do_not_exist(sizes: tuple[int, int, int, int, int]) -> None:
    with pytest.raises(InputError):
        Tile(*sizes, element_bytes=4)
    with pytest.raises(InputError, match="stages=0 must be positive"):
        Tile(128, 128, 8, 8, 8, 4, stages=0)


def test_the_curve_is_symmetric() -> None:
    curve = {(bm, bn): value for bm, bn, value in intensity_curve((32, 64), 4)}
    assert curve == {(32, 32): 8.0, (32, 64): 32 / 3, (64, 32): 32 / 3, (64, 64): 16.0}


@pytest.mark.parametrize(
    ("blocks", "full", "tail", "count", "last"),
    [
        (1024, 3, 232, 4, 232),
        (264, 1, 0, 1, 264),
        (265, 1, 1, 2, 1),
        (1, 0, 1, 1, 1),
    ],
)
def test_waves(blocks: int, full: int, tail: int, count: int, last: int) -> None:
    found = waves(blocks, 132, 2)
    assert (found.per_wave, found.full, found.tail, found.count) == (264, full, tail, count)
    assert found.last == last
    assert found.efficiency == blocks / (264 * count)


def test_tiles_at_the_edges_count() -> None:
    assert tiles(4096, 4096, 128, 128) == (32, 32)
    assert tiles(4097, 1, 128, 256) == (33, 1)
    with pytest.raises(InputError, match="bn=0 must be positive"):
        tiles(1, 1, 1, 0)
    with pytest.raises(InputError, match="sms=0 must be positive"):
        waves(1, 0, 1)


def test_a_roof() -> None:
    roof = Roof(100.0, 2000.0)
    assert roof.balance == 50.0
    assert (roof.attainable(10), roof.attainable(50), roof.attainable(500)) == (20.0, 100.0, 100.0)
    assert (roof.bound(49.9), roof.bound(50.0)) == ("memory", "arithmetic")


def test_peaks_by_format() -> None:
    h200, a100 = gpu_named("h200"), gpu_named("a100")
    found = [peak_tflops(h200, name) for name in ("fp32", "tf32", "bf16", "fp16", "e4m3")]
    assert found == [66.9, 494.5, 989, 989, 1978]
    with pytest.raises(InputError, match="has no 8-bit floats"):
        peak_tflops(a100, "e5m2")
    with pytest.raises(InputError, match="dtype='int4' has no peak rate"):
        peak_tflops(a100, "int4")


def test_what_a_product_must_move() -> None:
    assert gemm_flops(4, 5, 6) == 240
    assert gemm_bytes(4, 5, 6, 2) == 2 * (24 + 30 + 20)
    assert gemm_bytes(4, 5, 6, 2, out_bytes=4) == 2 * (24 + 30) + 4 * 20
