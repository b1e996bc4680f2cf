"""What no arithmetic can go on with is refused by name, NaN too, which compares with nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright.errors import InputError
from tilewright.gpus import gpu_named
from tilewright.model.intensity import tile_bytes, tile_intensity, tile_threads
from tilewright.model.occupancy import blocks_per_sm
from tilewright.model.raster import Grid, raster
from tilewright.model.roofline import Roof
from tilewright.model.tile import Tile
from tilewright.model.tiling import steps
from tilewright.model.waves import tiles, waves

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize("bad", [0, -1, NAN, INFINITE])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("bn", lambda x: tile_intensity(128, x, 4)),
        ("bk", lambda x: tile_bytes(128, 128, x, 4)),
        ("tm", lambda x: tile_threads(128, 128, x, 8)),
        ("width", lambda x: raster(0, 4, 4, x)),
        ("bm", lambda x: Grid(128, 128, 128, x, 128, 2)),
        ("gbps", lambda x: Roof(989, x)),
        ("bk", lambda x: steps((8, 8, 8), (4, 4, x), (0, 0), 4)),
        ("bm", lambda x: tiles(128, 128, x, 128)),
        ("sms", lambda x: waves(1024, x, 2)),
    ],
)
def test_a_size_must_be_positive(name: str, call: Callable[[Any], object], bad: float) -> None:
    with pytest.raises(InputError, match=rf"^{name}={bad} must be positive( and finite)?\.$"):
        call(bad)


def test_nan_is_neither_stages_nor_bytes() -> None:
    bad: Any = NAN
    with pytest.raises(InputError, match="stages=nan must be positive"):
        Tile(128, 128, 8, 8, 8, 4, bad)
    with pytest.raises(InputError, match="shared_bytes=nan must not be negative"):
        blocks_per_sm(gpu_named("h200"), 256, 64, bad)
