"""Lane arrays: how the emulator holds one value for every lane of every block.

A value has shape (b, w, l) that broadcasts to (blocks, warps, 32): a value that does not depend
on the block keeps b = 1, a uniform one is (1, 1, 1). NumPy's broadcasting then does no work
twice, and an address pattern that all blocks share is counted once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_] | None  # the active lanes; None = all of them

LANES = 32

# How each PTX type looks to NumPy when an instruction reads or writes it.
TYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in {
        **{"b8": "u1", "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2"},
        **{"b32": "u4", "u32": "u4", "s32": "i4", "b64": "u8", "u64": "u8", "s64": "i8"},
        **{"f16": "f2", "bf16": "u2", "f32": "f4", "f64": "f8", "pred": "?"},
        **{"f16x2": "u4", "bf16x2": "u4", "tf32": "u4"},
    }.items()
}

# One access of so many bytes: complex128 is the only 16-byte type that `take` copies in one move.
BY_WIDTH: dict[int, np.dtype[Any]] = {
    width: np.dtype(kind) for width, kind in {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}.items()
}

POISON = 0xFF  # every byte of memory that nobody wrote: NaN in all floating types we use
UNSET = 0xFFFF_FFFF  # the origin of what lies in a register that nothing wrote


def constant(value: int, dtype: np.dtype[Any]) -> Array:
    """The low bits of `value` as a uniform array of this type."""
    raw = (value & ((1 << 8 * dtype.itemsize) - 1)).to_bytes(dtype.itemsize, "little")
    array = np.frombuffer(raw, dtype).reshape(1, 1, 1)
    array.flags.writeable = False
    return array


def split(wide: Array, dtype: np.dtype[Any], count: int) -> list[Array]:
    """The `count` elements inside each element of a wide access, as views."""
    if count == 1:
        return [wide.view(dtype)]
    parts = np.ascontiguousarray(wide).view(dtype).reshape(*wide.shape, count)
    return [parts[..., i] for i in range(count)]


def join(parts: list[Array], width: int) -> Array:
    """The opposite of `split`: one element of `width` bytes from its parts."""
    if len(parts) == 1:
        return parts[0].view(BY_WIDTH[width])
    stacked = np.stack(np.broadcast_arrays(*parts), axis=-1)
    return stacked.view(BY_WIDTH[width])[..., 0]


def differ(one: Array, other: Array) -> Array:
    """Where two arrays of one type differ in their bits: NaN is like itself."""
    first, second = np.ascontiguousarray(one), np.ascontiguousarray(other)
    if first.dtype.itemsize == 16:
        pairs = [part.view(np.uint64).reshape(*one.shape, 2) for part in (first, second)]
        return np.asarray((pairs[0] != pairs[1]).any(-1))
    bits = f"u{first.dtype.itemsize}"
    return np.asarray(first.view(bits) != second.view(bits))
