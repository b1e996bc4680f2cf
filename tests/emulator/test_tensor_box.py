"""Boxes of tensor maps against a loop over their elements; swizzles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.emulator.arrays import BY_WIDTH
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.tensor_box import Box, swizzled
from tilewright.emulator.tensor_tokens import TensorMaps
from tilewright.errors import UnsupportedError
from tilewright.tensormap import TensorMap, tiled


def box_of(tensor_map: TensorMap) -> Box:
    memory, maps = GlobalMemory(), TensorMaps()
    found = maps.find(maps.token(tensor_map, memory))
    assert found is not None
    return Box(found, memory.allocations[0])


def by_hand(tensor_map: TensorMap, at: list[int], fill: Any) -> list[Any]:
    """Element by element, from the driver's description of a map."""
    assert isinstance(tensor_map.base, np.ndarray)
    flat = tensor_map.base.reshape(-1)
    found = []
    for place in np.ndindex(*tensor_map.copied[::-1]):
        index = [
            start + step * i
            for start, step, i in zip(
                at, (1, *tensor_map.element_strides[1:]), place[::-1], strict=True
            )
        ]
        inside = all(0 <= i < n for i, n in zip(index, tensor_map.shape, strict=True))
        offset = sum(i * s for i, s in zip(index, tensor_map.byte_strides, strict=True))
        found.append(flat[offset // tensor_map.element_bytes] if inside else fill)
    return found


CASES: list[tuple[dict[str, Any], list[list[int]]]] = [
    ({"dtype": "u16", "shape": (96, 40), "strides": (208,), "box": (64, 8)},
     [[0, 0], [8, 5], [32, 32], [40, 35], [-8, -3], [96, 0], [0, 40], [-64, 0]]),
    ({"dtype": "u32", "shape": (64,), "strides": (), "box": (16,)}, [[0], [48], [52], [-4]]),
    ({"dtype": "u8", "shape": (50, 6, 4), "strides": (64, 400), "box": (32, 3, 2)},
     [[0, 0, 0], [16, 2, 1], [32, 4, 3]]),
    ({"dtype": "u16", "shape": (8, 5, 4, 3), "strides": (16, 80, 320), "box": (8, 2, 3, 2)},
     [[0, 0, 0, 0], [0, 4, 2, 2], [0, -1, 1, 1]]),
    ({"dtype": "u64", "shape": (4, 3, 2, 2, 2), "strides": (32, 96, 192, 384),
      "box": (2, 2, 2, 1, 2)}, [[0, 0, 0, 0, 0], [2, 1, 1, 1, 1], [2, 2, 0, 0, 0]]),
    ({"dtype": "u16", "shape": (64, 40), "strides": (128,), "box": (16, 7),
      "element_strides": (1, 3)}, [[0, 0], [16, 31], [16, 35]]),
    ({"dtype": "u16", "shape": (64, 10, 3), "strides": (384, 128), "box": (64, 4, 2)},
     [[0, 0, 0], [0, 8, 1]]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "starts"), CASES)
def test_what_a_box_reads(given: dict[str, Any], starts: list[list[int]]) -> None:
    array = np.random.default_rng(0).integers(1, 256, 10240).astype("u1")  # never 0, the fill
    element = np.dtype(f"u{TensorMap(base=1 << 20, **given).element_bytes}")
    tensor_map = TensorMap(base=array.view(element), **given)
    box, at = box_of(tensor_map), np.array(starts)
    got = box.read(at).view(element)
    for row, start in zip(got, starts, strict=True):
        assert row.tolist() == by_hand(tensor_map, start, 0), start
    inside = box.inside(at)
    zeros = [0 in by_hand(tensor_map, start, 0) for start in starts]
    assert (inside == ~np.array(zeros)).all()
    valid = sum(np.count_nonzero(by_hand(tensor_map, start, 0)) for start in starts)
    assert box.traffic(at).nbytes == valid * element.itemsize


def test_what_a_box_costs() -> None:
    box = box_of(tiled(np.zeros((64, 128), "f2"), (8, 64)))
    one = box.traffic(np.array([[0, 0]]))
    assert (one.nbytes, one.sectors, one.requests) == (1024, 32, 8)
    crooked = box.traffic(np.array([[8, 0]]))
    assert (crooked.nbytes, crooked.sectors, crooked.requests) == (1024, 8 * 5, 8 * 2)
    cut = box.traffic(np.array([[96, 60], [128, 0]]))
    assert (cut.nbytes, cut.sectors, cut.requests) == (4 * 64, 8, 4)


def test_nan_out_of_bounds() -> None:
    box = box_of(tiled(np.ones((4, 16), "f4"), (4, 8), oob_fill="nan"))
    row = box.read(np.array([[12, 3]])).view("f4")[0].reshape(4, 8)
    assert (row[0, :4] == 1).all()
    assert np.isnan(row[0, 4:]).all()
    assert np.isnan(row[1:]).all()


@pytest.mark.parametrize(("swizzle", "mask"), [("none", 0), ("32B", 1), ("64B", 3), ("128B", 7)])
def test_swizzles(swizzle: str, mask: int) -> None:
    address = np.arange(0, 4096, 16)
    expected = address ^ ((address >> 7 & mask) << 4)
    np.testing.assert_array_equal(swizzled(address // 16, swizzle) * 16, expected)
    rows = max(16, 16 * (mask + 1))
    box = box_of(tiled(np.zeros((64, 256), "u1"), (32, rows), swizzle=swizzle))
    assert sorted(box.places(1024 + 128)) == list(range(72, 72 + 32 * rows // 16))


def test_tokens() -> None:
    memory, maps = GlobalMemory(), TensorMaps()
    one, other = tiled(np.zeros((8, 64), "f4"), (8, 16)), tiled(np.zeros((8, 64), "f4"), (8, 16))
    raw = maps.token(one, memory), maps.token(other, memory)
    assert len(raw[0]) == 128
    assert raw[0] != raw[1]
    assert maps.token(one, memory) == raw[0]
    found = maps.find(raw[1])
    assert found is not None
    assert found.base == memory.allocations[1].base
    assert maps.find(bytes(128)) is None
    assert maps.find(raw[0][:63] + b"\1" + raw[0][64:]) is None
    assert maps.find(raw[0][:64] + b"\1" * 64) == maps.find(raw[0])  # as the CuTe DSL copies it
    assert BY_WIDTH[16].itemsize == 16


def test_maps_that_are_not_modelled() -> None:
    memory, maps = GlobalMemory(), TensorMaps()
    three = TensorMap("u8", 1 << 20, (32, 8, 8), (32, 256), (32, 8, 8), (), "16B")
    with pytest.raises(UnsupportedError, match="interleave='16B' is not modelled"):
        maps.token(three, memory)
    narrow = tiled(np.zeros((8, 64), "f4"), (8, 16), swizzle="128B")
    with pytest.raises(UnsupportedError, match="narrower than swizzle='128B'"):
        maps.token(narrow, memory)
