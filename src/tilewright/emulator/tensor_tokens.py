"""Tensor maps as a kernel sees them: 128 opaque bytes, which may be copied and pointed to.

    magic (16 bytes) | number of the map | address of its tensor | its number again, 96 bytes of it

A GPU's bytes are the driver's secret; these say which TensorMap is meant, also in a copy.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.tensormap import MAP_BYTES, SWIZZLE_BYTES, TensorMap

if TYPE_CHECKING:
    from tilewright.emulator.memory import GlobalMemory

_MAGIC = b"tilewright\0map\0\x01"
_WORDS = struct.Struct("<16s14Q")
BASE_OFFSET = 24  # where the address of the tensor lies


class TensorMaps:
    """Those that a memory knows; the same map has one number."""

    def __init__(self) -> None:
        self._known: list[TensorMap] = []

    def token(self, tensor_map: TensorMap, memory: GlobalMemory, name: str = "") -> bytes:
        """The 128 bytes. Raises: UnsupportedError for maps whose boxes are not modelled."""
        _check(tensor_map)
        base = tensor_map.base
        if isinstance(base, np.ndarray):
            base = memory.allocate(base, name)
        placed = tensor_map.at(base)
        if placed not in self._known:
            self._known.append(placed)
        number = self._known.index(placed)
        return _WORDS.pack(_MAGIC, number, base, *(number,) * 12)

    def find(self, raw: bytes) -> TensorMap | None:
        """The map that these bytes mean, at its address; None for bytes that mean none."""
        if len(raw) != MAP_BYTES:
            return None
        magic, number, base, *again = _WORDS.unpack(raw)
        if magic != _MAGIC or number >= len(self._known) or set(again) != {number}:
            return None
        found = self._known[number]
        return found if found.base == base else None


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
