"""The launch record and the parameter struct that C sees."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tilewright.errors import InputError
from tilewright.launch import (
    GEMM_ARGS,
    GRID_LIMITS,
    TMA_GEMM_ARGS,
    Launch,
    Record,
    dim3,
    gemm_args,
)
from tilewright.tensormap import TensorMap


def launch(**changes: Any) -> Launch:
    fields: dict[str, Any] = {
        "artifact": None,
        "kernel": "gemm",
        "grid": (1, 1, 1),
        "block": (256, 1, 1),
        "params": (),
    }
    return Launch(**(fields | changes))


def test_gemm_args_is_the_struct_in_c() -> None:
    raw = gemm_args(0x7F00_0000_0000, 2, 3, 128, 256, 64)
    assert raw == struct.pack("<QQQiii4x", 0x7F00_0000_0000, 2, 3, 128, 256, 64)
    assert GEMM_ARGS.itemsize == len(raw) == 40


def tensor_map(address: int) -> TensorMap:
    return TensorMap("bf16", address, (64, 8), (128,), (64, 8), swizzle="128B")


def test_tensor_maps_lie_at_multiples_of_64_in_a_record() -> None:
    record = Record("R", n="i4", map="map", x="f4", p="u8")
    assert record.offsets == {"n": 0, "map": 64, "x": 192, "p": 200}
    assert record.itemsize == 256  # a whole number of its own alignment
    assert record.defines() == {
        "R_BYTES": "256", "R_N": "0", "R_MAP": "64", "R_X": "192", "R_P": "200",
    }  # fmt: skip


def test_a_packed_record_is_filled_by_the_engine() -> None:
    packed = TMA_GEMM_ARGS.pack(
        A_map=tensor_map(1024),
        B_map=tensor_map(2048),
        C_map=tensor_map(4096),
        C=4096,
        M=1,
        N=2,
        K=3,
    )
    assert len(packed) == TMA_GEMM_ARGS.itemsize == 448
    assert [offset for offset, _ in packed.maps] == [0, 128, 256]
    raw = packed.filled(lambda one: struct.pack("<Q120x", int(one.base)))
    maps = [struct.pack("<Q120x", address) for address in (1024, 2048, 4096)]
    assert raw == b"".join(maps) + struct.pack("<Qiii44x", 4096, 1, 2, 3)
    again = TMA_GEMM_ARGS.pack(
        A_map=tensor_map(1024),
        B_map=tensor_map(2048),
        C_map=tensor_map(4096),
        C=4096,
        M=1,
        N=2,
        K=3,
    )
    assert packed == again
    assert hash(packed) == hash(again)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"A": 1, "B": 2, "C": 3, "M": 4, "N": 5}, "GEMM_ARGS has A, B, C, M, N, K; check K"),
        ({"A": 1, "B": 2, "C": 3, "M": 4, "N": 5, "K": 6, "L": 7}, "check L"),
        ({"A": tensor_map(16), "B": 2, "C": 3, "M": 4, "N": 5, "K": 6}, r"A takes a u8, not Tens"),
    ],
)
def test_a_record_takes_its_own_fields(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        GEMM_ARGS.pack(**values)
    with pytest.raises(InputError, match=r"R\.m takes a map, not 5"):
        Record("R", m="map").pack(m=5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"grid": (0, 1, 1)}, r"grid\.x=0 must be between 1 and 2147483647"),
        ({"grid": (1, 65536, 1)}, r"grid\.y=65536 must be between 1 and 65535"),
        ({"grid": (1, 1, 65536)}, r"grid\.z=65536 must be between 1 and 65535"),
        ({"block": (2048, 1, 1)}, r"block\.x=2048 must be between 1 and 1024"),
        ({"block": (1, 1, 65)}, r"block\.z=65 must be between 1 and 64"),
        ({"block": (32, 33, 1)}, r"has 1056 threads; CUDA allows 1024"),
        ({"cluster": (4, 4, 2)}, r"cluster=\(4, 4, 2\) has 32 blocks; a GPU takes 16"),
        ({"cluster": (0, 1, 1)}, r"cluster\.x=0 must be between 1"),
    ],
)
def test_limits(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        launch(**changes)


def test_the_largest_grid_is_accepted() -> None:
    assert launch(grid=(2**31 - 1, 65535, 65535)).grid[0] == 2**31 - 1


def test_dim3_fills_up() -> None:
    assert dim3("grid", (8,), GRID_LIMITS) == (8, 1, 1)
    assert dim3("grid", [8, 2], GRID_LIMITS) == (8, 2, 1)
    for extents in ((), (1, 2, 3, 4)):
        with pytest.raises(InputError, match="must have 1 to 3 extents"):
            dim3("grid", extents, GRID_LIMITS)
