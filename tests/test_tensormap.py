from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError
from tilewright.tensormap import TensorMap, tiled


def make(**changes: Any) -> TensorMap:
    given: dict[str, Any] = {
        "dtype": "bf16",
        "base": 1 << 20,
        "shape": (200, 100),
        "strides": (400,),
        "box": (64, 32),
        "swizzle": "128B",
    }
    return TensorMap(**{**given, **changes})


def test_what_a_box_moves() -> None:
    assert make().box_bytes == 64 * 32 * 2
    assert make(element_strides=(2, 3)).copied == (64, 11)  # the innermost stride is ignored
    assert make().byte_strides == (2, 400)
    assert make().rank == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "fp8"}, "dtype='fp8' is not known"),
        ({"dtype": "u4_align16"}, "dtype='u4_align16' exists from sm_100 on only"),
        ({"swizzle": "128B_atom_32B"}, "swizzle='128B_atom_32B' exists from sm_100 on only"),
        ({"swizzle": 128}, "swizzle=128 is not known"),
        ({"interleave": "8B"}, "interleave='8B' is not known"),
        ({"l2_promotion": "512B"}, "l2_promotion='512B' is not known"),
        ({"oob_fill": "one"}, "oob_fill='one' is not known"),
        ({"oob_fill": "nan", "dtype": "u16"}, "needs a floating dtype"),
        ({"shape": (), "strides": (), "box": ()}, "has 0 dimensions"),
        ({"shape": (8,) * 6, "strides": (16,) * 5, "box": (8,) * 6}, "has 6 dimensions"),
        ({"interleave": "16B"}, "needs 3 to 5 dimensions"),
        ({"strides": ()}, r"strides=\(\) must have 1 numbers"),
        ({"box": (64,)}, r"box=\(64,\) must have 2 numbers"),
        ({"element_strides": (1,)}, "element_strides"),
        ({"shape": (0, 100)}, r"shape\[0\]=0 must be 1 to 4294967296"),
        ({"shape": (200, 2**32 + 1)}, r"shape\[1\]=4294967297"),
        ({"box": (64, 257)}, r"box\[1\]=257 must be 1 to 256"),
        ({"box": (64, 0)}, r"box\[1\]=0"),
        ({"box": (64, 1.5)}, "must be whole numbers"),
        ({"element_strides": (1, 9)}, r"element_strides\[1\]=9 must be 1 to 8"),
        ({"strides": (408,)}, r"strides\[0\]=408 bytes must be a multiple of 16"),
        ({"strides": (2**40,)}, "below 2"),
        ({"base": (1 << 20) + 8}, "base=1048584 must be"),
        ({"base": 0}, "base=0 must be"),
        ({"base": "x"}, "base='x' must be"),
        ({"box": (4, 32)}, "is 8 bytes; the innermost extent must be a multiple of 16"),
        ({"box": (128, 32)}, "is 256 bytes; swizzle='128B' takes at most 128"),
        ({"swizzle": "64B"}, "is 128 bytes; swizzle='64B' takes at most 64"),
        ({"base": np.zeros(100, "u1")}, "and the array has 100"),
        ({"base": np.zeros((200, 200), "u2")[:, :100]}, "not C-contiguous"),
    ],
)
def test_rules_of_the_driver(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(**changes)


def test_rules_of_interleaved_maps() -> None:
    three = {"shape": (16, 8, 8), "strides": (32, 256), "box": (16, 8, 8), "swizzle": "32B"}
    assert make(**three, interleave="32B").box_bytes == 16 * 8 * 8 * 2
    with pytest.raises(InputError, match="needs swizzle='32B'"):
        make(**{**three, "swizzle": "64B"}, interleave="32B")
    with pytest.raises(InputError, match="multiple of 32"):
        make(**{**three, "strides": (48, 256)}, interleave="32B")
    with pytest.raises(InputError, match="multiple of 32"):
        make(**three, base=(1 << 20) + 16, interleave="32B")


def test_equality_holds_everything_encoded() -> None:
    array = np.zeros((100, 200), "u2")
    one = make(base=array)
    assert one == make(base=array)
    assert hash(one) == hash(make(base=array))
    assert len({one, make(base=array.copy()), make(), make(base=1 << 21), make(base=array)}) == 4
    for change in (
        {"dtype": "fp16"}, {"shape": (100, 100)}, {"strides": (416,)}, {"box": (32, 32)},
        {"element_strides": (1, 2)}, {"swizzle": "none"}, {"l2_promotion": "128B"},
        {"oob_fill": "nan"},
    ):  # fmt: skip
        assert make(**change) != make(), change
    assert make() != "a map"
    assert make().at(1 << 22) == make(base=1 << 22)


def test_a_box_of_an_array_is_row_major() -> None:
    array = np.zeros((5, 96, 128), np.float16)
    made = tiled(array, (1, 32, 64), swizzle="128B", oob_fill="nan", l2_promotion="256B")
    assert (made.shape, made.box) == ((128, 96, 5), (64, 32, 1))
    assert made.strides == (256, 96 * 256)
    assert made.base is array
    assert (made.dtype, made.swizzle, made.oob_fill) == ("fp16", "128B", "nan")
    padded = tiled(np.zeros((8, 64), "f4"), (8, 16), dtype="tf32", shape=(7, 50))
    assert (padded.dtype, padded.shape, padded.strides) == ("tf32", (50, 7), (256,))
    assert tiled(np.zeros(64, "i1"), (16,)).strides == ()


def test_arrays_that_no_map_describes() -> None:
    with pytest.raises(InputError, match="complex64 has no type of a tensor map"):
        tiled(np.zeros((8, 8), "c8"), (8, 8))
    with pytest.raises(InputError, match="must be a part"):
        tiled(np.zeros((8, 64), "f4"), (8, 16), shape=(9, 64))
    with pytest.raises(InputError, match="must be a part"):
        tiled(np.zeros((8, 64), "f4"), (8, 16), shape=(8,))
    with pytest.raises(InputError, match="multiple of 16"):
        tiled(np.zeros((8, 65), "f4"), (8, 16))
    with pytest.raises(InputError, match="a list is no NumPy array"):
        tiled([[1.0]], (1, 1))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not C-contiguous"):
        tiled(np.zeros((64, 64), "f4").T, (8, 16))


def test_a_box_that_no_map_takes() -> None:
    """Messages name the fields of the map, whose order is the other one: they say so."""
    array = np.zeros((300, 64), "f2")
    with pytest.raises(InputError, match=r"box\[1\]=257 .* \(Dimension 0 .* the array's last"):
        tiled(array, (257, 64))
    with pytest.raises(InputError, match="box=64 must have a number for each"):
        tiled(array, 64)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"use none, 32B, 64B, 128B\.$"):
        tiled(array, (8, 64), swizzle="16B")
