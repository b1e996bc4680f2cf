"""Tensor maps as a kernel sees them: 128 bytes, which may be copied, pointed to and replaced.

    magic, checksum | address | 4 strides | 5 extents | 5 of the box | 5 element strides |
    rank, type, interleave, swizzle, promotion, fill | which of these are set

A GPU's bytes are the driver's secret; these say what a TensorMap says, so that tensormap.replace
can change one thing of it, also of 128 zeros. What was changed in any other way is no map.
Numbers are those of tensormap.replace, PTX ISA, "tensormap.replace: new_val validity".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from tilewright.errors import InputError, UnsupportedError
from tilewright.tensormap import (
    INTERLEAVES,
    L2_PROMOTIONS,
    MAP_BYTES,
    OOB_FILLS,
    SWIZZLE_BYTES,
    TensorMap,
)

if TYPE_CHECKING:
    from tilewright.emulator.memory import GlobalMemory

_HEAD = struct.Struct("<4sI")
_BODY = struct.Struct("<10Q10H6B2xI8x")
_MAGIC = b"tmap"
BASE_OFFSET = _HEAD.size  # where the address of the tensor lies
_FIRST = {  # where the numbers of a field begin, and how many there are
    "global_address": (0, 1), "global_stride": (1, 4), "global_dim": (5, 5), "box_dim": (10, 5),
    "element_stride": (15, 5), "rank": (20, 1), "elemtype": (21, 1), "interleave_layout": (22, 1),
    "swizzle_mode": (23, 1), "l2_promotion": (24, 1), "fill_mode": (25, 1),
}  # fmt: skip
_SET = 26  # which of the numbers before have been set, a bit each
_MOST = [2**64 - 1] * 10 + [2**16 - 1] * 10 + [2**8 - 1] * 6
_DTYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "fp16", "fp32", "fp32_ftz", "fp64", "bf16", "tf32",
    "tf32_ftz",
)  # fmt: skip
WORDS = {  # what the numbers of a field mean; more there are not on sm_90
    "elemtype": _DTYPES,
    "interleave_layout": INTERLEAVES,
    "swizzle_mode": tuple(SWIZZLE_BYTES),
    "l2_promotion": L2_PROMOTIONS,
    "fill_mode": OOB_FILLS,
}


class TensorMaps:
    """Bytes of maps and back, for the launches of one memory."""

    def __init__(self) -> None:
        self._found: dict[bytes, TensorMap] = {}

    def token(self, tensor_map: TensorMap, memory: GlobalMemory, name: str = "") -> bytes:
        """The 128 bytes. Raises: UnsupportedError for maps whose boxes are not modelled."""
        _check(tensor_map)
        base = tensor_map.base
        if isinstance(base, np.ndarray):
            base = memory.allocate(base, name)
        numbers = [0] * len(_MOST)
        for field, values in _numbers(tensor_map, base).items():
            for ordinal, value in enumerate(values):
                _put(numbers, field, ordinal, value)
        return _packed([*numbers, _mask(tensor_map.rank)])

    def find(self, raw: bytes) -> TensorMap | None:
        """The map that these bytes mean, at its address; None for bytes that mean none.

        Raises: InputError for one that lacks something or breaks a rule, UnsupportedError for one
        whose boxes are not modelled.
        """
        known = self._found.get(raw)
        if known is None:
            numbers = _unpacked(raw)
            if numbers is None or not numbers[_SET]:
                return None
            known = _map_of(numbers)
            _check(known)
            self._found[raw] = known
        return known


def count_of(field: str) -> int:
    """How many numbers a field of tensormap.replace has: one, or one for each dimension."""
    return _FIRST[field][1]


def replaced(raw: bytes, field: str, ordinal: int, value: int) -> bytes | None:
    """A map with one number changed; None where the bytes are neither a map nor all zero."""
    numbers = _unpacked(raw)
    if numbers is None:
        return None
    place = _put(numbers, field, ordinal, value)
    numbers[_SET] |= 1 << place
    return _packed(numbers)


def _put(numbers: list[int], field: str, ordinal: int, value: int) -> int:
    """A number too large for its place becomes the largest, which no map may have either."""
    place = _FIRST[field][0] + ordinal
    numbers[place] = min(value, _MOST[place])
    return place


def _numbers(tensor_map: TensorMap, base: int) -> dict[str, tuple[int, ...]]:
    it = tensor_map
    return {
        "global_address": (base,),
        "global_stride": it.strides,
        "global_dim": it.shape,
        "box_dim": it.box,
        "element_stride": it.element_strides,
        "rank": (it.rank - 1,),
        "elemtype": (_DTYPES.index(it.dtype),),
        "interleave_layout": (INTERLEAVES.index(it.interleave),),
        "swizzle_mode": (tuple(SWIZZLE_BYTES).index(it.swizzle),),
        "l2_promotion": (L2_PROMOTIONS.index(it.l2_promotion),),
        "fill_mode": (OOB_FILLS.index(it.oob_fill),),
    }


def _needed(rank: int) -> dict[str, int]:
    """How many numbers of each field a map of this rank has."""
    most = {"global_stride": rank - 1, "l2_promotion": 0}  # which no instruction sets
    return {field: most.get(field, min(count, rank)) for field, (_, count) in _FIRST.items()}


def _mask(rank: int) -> int:
    """All numbers of a map of this rank, as bits."""
    places = [_FIRST[field][0] + i for field, count in _needed(rank).items() for i in range(count)]
    return sum(1 << place for place in places)


def _packed(numbers: list[int]) -> bytes:
    body = _BODY.pack(*numbers)
    return _HEAD.pack(_MAGIC, crc32(body)) + body


def _unpacked(raw: bytes) -> list[int] | None:
    """The numbers, and which of them are set; of zeros none is."""
    if len(raw) != MAP_BYTES:
        return None
    if not any(raw):
        return [0] * (_SET + 1)
    magic, checksum = _HEAD.unpack_from(raw)
    body = raw[_HEAD.size :]
    return list(_BODY.unpack(body)) if (magic, checksum) == (_MAGIC, crc32(body)) else None


def _map_of(numbers: list[int]) -> TensorMap:
    def of(field: str, count: int) -> tuple[int, ...]:
        first = _FIRST[field][0]
        return tuple(numbers[first : first + count])

    def word(field: str) -> str:
        return WORDS[field][of(field, 1)[0]]

    rank = of("rank", 1)[0] + 1
    if rank > count_of("global_dim"):
        raise InputError(f"its tensor map has rank {rank}; a tensor map has 1 to 5 dimensions.")
    if lacks := _lacking(numbers, rank):
        raise InputError(
            f"its tensor map lacks {', '.join(lacks)}: of a map that begins as zeros, or has got "
            "more dimensions, tensormap.replace must set all."
        )
    return TensorMap(
        word("elemtype"),
        of("global_address", 1)[0],
        of("global_dim", rank),
        of("global_stride", rank - 1),
        of("box_dim", rank),
        of("element_stride", rank),
        word("interleave_layout"),
        word("swizzle_mode"),
        word("l2_promotion"),
        word("fill_mode"),
    )


def _lacking(numbers: list[int], rank: int) -> list[str]:
    places = (
        (field, ordinal)
        for field, count in _needed(rank).items()
        for ordinal in range(count)
    )
    return [
        field if count_of(field) == 1 else f"{field} {ordinal}"
        for field, ordinal in places
        if not numbers[_SET] >> _FIRST[field][0] + ordinal & 1
    ]


def _check(tensor_map: TensorMap) -> None:
    if tensor_map.interleave != "none":
        raise UnsupportedError(
            f"a tensor map with interleave={tensor_map.interleave!r} is not modelled; "
            "use interleave='none'."
        )
    inner = tensor_map.box[0] * tensor_map.element_bytes
    if inner < (span := SWIZZLE_BYTES[tensor_map.swizzle]):
        raise UnsupportedError(
            f"a box whose rows of {inner} bytes are narrower than swizzle={tensor_map.swizzle!r} "
            f"is not modelled: where they lie in shared memory is not documented; use rows of "
            f"{span} bytes or a narrower swizzle."
        )
