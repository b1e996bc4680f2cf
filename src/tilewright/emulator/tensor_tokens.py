"""Tensor maps as a kernel sees them: 128 bytes, which may be copied, pointed to and replaced.

A GPU's bytes are the driver's secret. These say what a TensorMap says, in numbers that
tensormap.replace can change one by one, also of zeros, and all of it in the first 64 bytes: the
CuTe DSL copies no more of a map. What was changed in any other way is no map.

    address (8 bytes) | checksum (4) | the other numbers, `_FIELDS`

PTX ISA, "tensormap.replace": what the numbers mean, which is not what the driver's enums say.
"""

from __future__ import annotations

from dataclasses import dataclass
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

USED_BYTES = 64  # of a map; what follows is zeros, or whatever lay there
BASE_OFFSET = 0  # where the address of the tensor lies
_ADDRESS_BYTES, _CHECK_BYTES = 8, 4
_DTYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "fp16", "fp32", "fp32_ftz", "fp64", "bf16", "tf32",
    "tf32_ftz",
)  # fmt: skip
WORDS = {  # what the numbers of a field mean; more there are not on sm_90
    "elemtype": _DTYPES,
    "interleave_layout": INTERLEAVES,
    "swizzle_mode": tuple(SWIZZLE_BYTES),
    "fill_mode": OOB_FILLS,
    "l2_promotion": L2_PROMOTIONS,
}


@dataclass(frozen=True, slots=True)
class _Field:
    """`count` numbers of `bits` each: 0 is none yet, all ones one that no map may have.

    Between them are `least` and those that follow it in steps, up to `most`.
    """

    count: int
    bits: int
    least: int
    most: int
    step: int = 1

    @property
    def bad(self) -> int:
        return (1 << self.bits) - 1

    def stored(self, value: int) -> int:
        index, rest = divmod(value - self.least, self.step)
        return self.bad if rest or not self.least <= value <= self.most else index + 1

    def value(self, stored: int) -> int:
        return self.least + (stored - 1) * self.step


_FIELDS = {
    "global_stride": _Field(4, 37, 0, 2**40 - 16, 16),
    "global_dim": _Field(5, 33, 1, 2**32),
    "box_dim": _Field(5, 9, 1, 256),
    "element_stride": _Field(5, 4, 1, 8),
    "rank": _Field(1, 3, 0, 4),  # one less than the rank
    **{name: _Field(1, 4, 0, len(words) - 1) for name, words in WORDS.items()},
}
_Numbers = dict[str, list[int]]  # as they are stored


class TensorMaps:
    """Bytes of maps and back, for the launches of one memory."""

    def __init__(self) -> None:
        self._found: dict[bytes, TensorMap] = {}

    def token(self, tensor_map: TensorMap, memory: GlobalMemory, name: str = "") -> bytes:
        """The 128 bytes. Raises: UnsupportedError for maps whose boxes are not modelled."""
        _check(tensor_map)
        it, base = tensor_map, tensor_map.base
        if isinstance(base, np.ndarray):
            base = memory.allocate(base, name)
        values = {
            "global_stride": it.strides,
            "global_dim": it.shape,
            "box_dim": it.box,
            "element_stride": it.element_strides,
            "rank": (it.rank - 1,),
            "elemtype": (_DTYPES.index(it.dtype),),
            "interleave_layout": (INTERLEAVES.index(it.interleave),),
            "swizzle_mode": (tuple(SWIZZLE_BYTES).index(it.swizzle),),
            "fill_mode": (OOB_FILLS.index(it.oob_fill),),
            "l2_promotion": (L2_PROMOTIONS.index(it.l2_promotion),),
        }
        numbers = _nothing()
        for field, given in values.items():
            numbers[field][: len(given)] = [_FIELDS[field].stored(value) for value in given]
        return _packed(base, numbers)

    def find(self, raw: bytes) -> TensorMap | None:
        """The map that these bytes mean, at its address; None for bytes that mean none.

        Raises: InputError for one that lacks something or breaks a rule, UnsupportedError for one
        whose boxes are not modelled.
        """
        used = raw[:USED_BYTES]
        known = self._found.get(used)
        if known is None:
            unpacked = _unpacked(raw)
            if unpacked is None or not any(used):
                return None
            known = _map_of(*unpacked)
            _check(known)
            self._found[used] = known
        return known


def count_of(field: str) -> int:
    """How many numbers a field of tensormap.replace has: one, or one for each dimension."""
    return 1 if field == "global_address" else _FIELDS[field].count


def replaced(raw: bytes, field: str, ordinal: int, value: int) -> bytes | None:
    """A map with one number changed; None where the bytes are neither a map nor zeros."""
    unpacked = _unpacked(raw)
    if unpacked is None:
        return None
    address, numbers = unpacked
    if field == "global_address":
        address = value
    else:
        numbers[field][ordinal] = _FIELDS[field].stored(value)
    return _packed(address, numbers)[:USED_BYTES] + raw[USED_BYTES:]


def _nothing() -> _Numbers:
    return {name: [0] * field.count for name, field in _FIELDS.items()}


def _packed(address: int, numbers: _Numbers) -> bytes:
    bits, at = 0, 0
    for name, field in _FIELDS.items():
        for number in numbers[name]:
            bits |= number << at
            at += field.bits
    rest = bits.to_bytes(USED_BYTES - _ADDRESS_BYTES - _CHECK_BYTES, "little")
    head = address.to_bytes(_ADDRESS_BYTES, "little")
    check = crc32(head + rest).to_bytes(_CHECK_BYTES, "little")
    return (head + check + rest).ljust(MAP_BYTES, b"\0")


def _unpacked(raw: bytes) -> tuple[int, _Numbers] | None:
    """Address and numbers; of zeros none is set. None for what `_packed` did not make."""
    if len(raw) != MAP_BYTES:
        return None
    numbers, used = _nothing(), raw[:USED_BYTES]
    if not any(used):
        return 0, numbers
    head, check = used[:_ADDRESS_BYTES], used[_ADDRESS_BYTES : _ADDRESS_BYTES + _CHECK_BYTES]
    rest = used[_ADDRESS_BYTES + _CHECK_BYTES :]
    if crc32(head + rest) != int.from_bytes(check, "little"):
        return None
    bits = int.from_bytes(rest, "little")
    for name, field in _FIELDS.items():
        for ordinal in range(field.count):
            numbers[name][ordinal] = bits & field.bad
            bits >>= field.bits
    return int.from_bytes(head, "little"), numbers


def _map_of(address: int, numbers: _Numbers) -> TensorMap:
    _check_set(address, numbers)

    def of(field: str, count: int = 1) -> tuple[int, ...]:
        return tuple(_FIELDS[field].value(number) for number in numbers[field][:count])

    def word(field: str) -> str:
        return WORDS[field][of(field)[0]]

    rank = of("rank")[0] + 1
    promotion = word("l2_promotion") if numbers["l2_promotion"][0] else "none"
    return TensorMap(
        word("elemtype"),
        address,
        of("global_dim", rank),
        of("global_stride", rank - 1),
        of("box_dim", rank),
        of("element_stride", rank),
        word("interleave_layout"),
        word("swizzle_mode"),
        promotion,
        word("fill_mode"),
    )


def _check_set(address: int, numbers: _Numbers) -> None:
    """Raises InputError where a number lacks, or is one that no map may have."""
    rank_field, stored = _FIELDS["rank"], numbers["rank"][0]
    rank = rank_field.value(stored) + 1 if 0 < stored < rank_field.bad else 1
    lacks = [] if address else ["global_address"]
    for name, field in _FIELDS.items():
        needed = {"global_stride": rank - 1, "l2_promotion": 0}.get(name, min(field.count, rank))
        for ordinal, number in enumerate(numbers[name][:needed]):
            shown = name if field.count == 1 else f"{name} {ordinal}"
            if number == field.bad:
                steps = f" in steps of {field.step}" if field.step > 1 else ""
                raise InputError(
                    f"its tensor map has got a {shown} that is not {field.least} to "
                    f"{field.most:,}{steps}."
                )
            if not number:
                lacks.append(shown)
    if lacks:
        raise InputError(
            f"its tensor map lacks {', '.join(lacks)}: of a map that begins as zeros, or has got "
            "more dimensions, tensormap.replace must set all."
        )


def _check(tensor_map: TensorMap) -> None:
    if tensor_map.interleave != "none":
        raise UnsupportedError(
            f"a tensor map with interleave={tensor_map.interleave!r} is not modelled; use "
            "interleave='none', with the channels of a slice as the innermost dimension and the "
            "slices as one of their own."
        )
    inner = tensor_map.box[0] * tensor_map.element_bytes
    if inner < (span := SWIZZLE_BYTES[tensor_map.swizzle]):
        raise UnsupportedError(
            f"a box whose rows of {inner} bytes are narrower than swizzle={tensor_map.swizzle!r} "
            f"is not modelled: where they lie in shared memory is not documented; use rows of "
            f"{span} bytes or a narrower swizzle."
        )
