"""Constants, splitting and joining of lane arrays."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.emulator.arrays import BY_WIDTH, TYPES, constant, join, split
from tilewright.emulator.ir import TYPE_BYTES


@pytest.mark.parametrize(("value", "kind"), [(-1, "u8"), (2**40 + 5, "u4"), (-3, "i2"), (1, "?")])
def test_constants_are_low_bits(value: int, kind: str) -> None:
    array = constant(value, np.dtype(kind))
    assert array.shape == (1, 1, 1)
    bits = 8 * array.itemsize
    assert int(array.view(f"u{array.itemsize}").item()) == value % (1 << bits)
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("width", "kind", "count"), [(16, "u4", 4), (16, "f8", 2), (8, "u1", 8), (4, "u4", 1)]
)
def test_split_and_join(width: int, kind: str, count: int) -> None:
    raw = np.arange(96 * width, dtype="u4").astype("u1")
    wide = raw.view(BY_WIDTH[width]).reshape(3, 1, 32)
    parts = split(wide, np.dtype(kind), count)
    assert len(parts) == count
    assert parts[-1][2, 0, 5].tobytes() == wide[2, 0, 5].tobytes()[-parts[0].itemsize :]
    assert join(parts, width).tobytes() == wide.tobytes()


def test_join_broadcasts_its_parts() -> None:
    lanes, uniform = np.arange(32, dtype="u4").reshape(1, 1, 32), np.full((2, 1, 1), 9, "u4")
    pair = join([lanes, uniform], 8)
    assert pair.shape == (2, 1, 32)
    assert int(pair[1, 0, 3]) == 9 << 32 | 3


def test_types_are_as_wide_as_the_parser_says() -> None:
    for name, dtype in TYPES.items():
        assert dtype.itemsize == TYPE_BYTES[name]
