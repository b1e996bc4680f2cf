"""TensorMap: what a tensor map says, as pure, validated data.

A GPU's driver encodes it into the 128 bytes of a CUtensorMap; the emulator uses it as it is.
Source: cuTensorMapEncodeTiled, CUDA Driver API, "Tensor Map Object Management"; the rules for
strides between dimensions that its text shows as an example are none: fast.cu's maps, whose
strides do not grow (`{64, rows, columns / 64}`), run on an H200 (2026-11).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import InputError

ELEMENT_BYTES = {  # by the words for CUtensorMapDataType
    "u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8,
    "fp16": 2, "bf16": 2, "fp32": 4, "fp32_ftz": 4, "tf32": 4, "tf32_ftz": 4, "fp64": 8,
}  # fmt: skip
FLOATS = frozenset(dtype for dtype in ELEMENT_BYTES if "f" in dtype)
SWIZZLE_BYTES = {"none": 0, "32B": 32, "64B": 64, "128B": 128}  # the span of a pattern's row
INTERLEAVES = ("none", "16B", "32B")
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
OOB_FILLS = ("zero", "nan")
_PLACE = re.compile(r"\w\[\d\]=")  # which number of a field a message is about
MAP_BYTES = 128  # of a CUtensorMap, which lies at a multiple of MAP_ALIGNMENT
MAP_ALIGNMENT = 64

_NEWER = {  # what cuTensorMapEncodeTiled also knows, for chips after Hopper
    "u4_align8": "dtype", "u4_align16": "dtype", "u6_align16": "dtype",
    "128B_atom_32B": "swizzle", "128B_atom_32B_flip_8B": "swizzle", "128B_atom_64B": "swizzle",
}  # fmt: skip
_DTYPE_OF_NUMPY = {
    "uint8": "u8", "int8": "u8", "uint16": "u16", "uint32": "u32", "int32": "s32",
    "uint64": "u64", "int64": "s64", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32",
    "float64": "fp64", "float8_e4m3fn": "u8", "float8_e5m2": "u8",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A tensor in global memory and the box of it that one bulk tensor copy moves.

    Shapes   everything is innermost first, as the driver has it: `shape` and `box` count
             elements, `strides` are the bytes between elements of dimensions 1 and up (one less
             than `shape`). `element_strides` take every n-th element of a dimension: the copy
             then moves ceil(box / n) of them; that of dimension 0 counts only with an
             interleave. Left out, they are 1.
    Types    `dtype` is u8, u16, u32, u64, s32, s64, fp16, bf16, fp32, fp64, fp32_ftz, tf32 or
             tf32_ftz (fp8 is u8). `base` is a C-contiguous NumPy array for
             `tilewright.emulate`, or a device address for an engine's launch. `interleave` is
             none, 16B or 32B; `swizzle` none, 32B, 64B or 128B; `l2_promotion` none, 64B, 128B
             or 256B; `oob_fill` zero or nan.
    Raises   InputError for every rule of cuTensorMapEncodeTiled that is broken, by name.
    Equality and hash are those of everything the encoding depends on; an array counts by where
    it lies, not by its values.
    """

    dtype: str
    base: npt.NDArray[Any] | int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    interleave: str = "none"
    swizzle: str = "none"
    l2_promotion: str = "none"
    oob_fill: str = "zero"

    def __post_init__(self) -> None:
        for name in ("shape", "strides", "box", "element_strides"):
            object.__setattr__(self, name, _integers(name, getattr(self, name)))
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * len(self.shape))
        _check_words(self)
        _check_ranks(self)
        _check_ranges(self)
        _check_inner_box(self)
        _check_base(self)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[self.dtype]

    @property
    def byte_strides(self) -> tuple[int, ...]:
        """Bytes between elements of every dimension, the innermost one's too."""
        return (self.element_bytes, *self.strides)

    @property
    def copied(self) -> tuple[int, ...]:
        """How many elements of each dimension one copy moves."""
        first = self.element_strides[0] if self.interleave != "none" else 1
        steps = (first, *self.element_strides[1:])
        return tuple(-(-extent // step) for extent, step in zip(self.box, steps, strict=True))

    @property
    def box_bytes(self) -> int:
        """Bytes of shared memory that one box takes; what a load adds to complete_tx."""
        return prod(self.copied) * self.element_bytes

    def at(self, address: int) -> TensorMap:
        """The same map of a tensor at a device address."""
        return replace(self, base=address)

    def _key(self) -> tuple[object, ...]:
        array = self.base if isinstance(self.base, np.ndarray) else None
        where = ("device", self.base)
        if array is not None:
            where = ("array", array.__array_interface__["data"][0])
        return (
            *where, self.dtype, self.shape, self.strides, self.box, self.element_strides,
            self.interleave, self.swizzle, self.l2_promotion, self.oob_fill,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, TensorMap) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())


def tiled(
    array: npt.NDArray[Any],
    box: Sequence[int],
    *,
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    swizzle: str = "none",
    l2_promotion: str = "none",
    oob_fill: str = "zero",
) -> TensorMap:
    """The map of a row-major array.

    Shapes   `box`, as `array.shape`, is row-major: a box of a matrix is (rows, columns), the
             columns being the innermost dimension. `shape` is the part [: rows, : columns] that
             is the tensor, where rows are padded; what lies outside it is out of bounds.
    Types    `dtype` is derived from the array's (float8 types and int8 become u8) unless given,
             as "tf32" for an array of float32.
    Raises   InputError, see TensorMap.
    """
    if not isinstance(array, np.ndarray):
        raise InputError(f"a {type(array).__name__} is no NumPy array; give np.asarray(...) of it.")
    word = dtype or _DTYPE_OF_NUMPY.get(array.dtype.name)
    if word is None:
        raise InputError(
            f"an array of {array.dtype} has no type of a tensor map; view it as uint8 or give "
            f"dtype: {', '.join(ELEMENT_BYTES)}."
        )
    extents = array.shape if shape is None else tuple(shape)
    if len(extents) != array.ndim or any(a > b for a, b in zip(extents, array.shape, strict=True)):
        raise InputError(f"shape={extents} must be a part [: rows, : columns] of {array.shape}.")
    _check_whole(array)
    try:
        return TensorMap(
            word,
            array,
            extents[::-1],
            array.strides[::-1][1:],
            tuple(box)[::-1],
            swizzle=swizzle,
            l2_promotion=l2_promotion,
            oob_fill=oob_fill,
        )
    except TypeError:
        raise InputError(f"box={box!r} must have a number for each dimension.") from None
    except InputError as error:
        order = " (Dimension 0 of a map is the innermost, the array's last.)"
        raise InputError(f"{error}{order * (_PLACE.search(str(error)) is not None)}") from None


def _integers(name: str, values: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(index(value) for value in values)
    except TypeError:
        raise InputError(f"{name}={values!r} must be whole numbers, innermost first.") from None


def _check_words(map_: TensorMap) -> None:
    for name, known in (
        ("dtype", tuple(ELEMENT_BYTES)),
        ("interleave", INTERLEAVES),
        ("swizzle", tuple(SWIZZLE_BYTES)),
        ("l2_promotion", L2_PROMOTIONS),
        ("oob_fill", OOB_FILLS),
    ):
        word = getattr(map_, name)
        if word not in known:
            newer = "exists from sm_100 on only" if _NEWER.get(word) == name else "is not known"
            raise InputError(f"{name}={word!r} {newer}; use {', '.join(known)}.")
    if map_.oob_fill == "nan" and map_.dtype not in FLOATS:
        raise InputError(f"oob_fill='nan' needs a floating dtype, not {map_.dtype!r}; use 'zero'.")


def _check_ranks(map_: TensorMap) -> None:
    rank = map_.rank
    if not 1 <= rank <= 5:
        raise InputError(f"shape={map_.shape} has {rank} dimensions; a tensor map has 1 to 5.")
    if map_.interleave != "none" and rank < 3:
        raise InputError(
            f"interleave={map_.interleave!r} needs 3 to 5 dimensions, and shape={map_.shape} has "
            f"{rank}; use interleave='none'."
        )
    for name, count in (("strides", rank - 1), ("box", rank), ("element_strides", rank)):
        if len(values := getattr(map_, name)) != count:
            raise InputError(
                f"{name}={values} must have {count} numbers for the {rank} dimensions of "
                f"shape={map_.shape}."
            )


def _check_ranges(map_: TensorMap) -> None:
    for name, most in (("shape", 2**32), ("box", 256), ("element_strides", 8)):
        for place, value in enumerate(getattr(map_, name)):
            if not 1 <= value <= most:
                raise InputError(f"{name}[{place}]={value} must be 1 to {most}.")
    step = _alignment(map_)
    for place, value in enumerate(map_.strides):
        if value % step or not 0 <= value < 2**40:
            raise InputError(
                f"strides[{place}]={value} bytes must be a multiple of {step} below 2^40; pad the "
                "rows."
            )


def _check_inner_box(map_: TensorMap) -> None:
    inner, span = map_.box[0] * map_.element_bytes, SWIZZLE_BYTES[map_.swizzle]
    if map_.interleave == "32B" and map_.swizzle != "32B":
        raise InputError(f"interleave='32B' needs swizzle='32B', not {map_.swizzle!r}.")
    if map_.interleave != "none":
        return
    elements = f"box[0]={map_.box[0]} of {map_.dtype} is {inner} bytes"
    if inner % 16:
        raise InputError(f"{elements}; the innermost extent must be a multiple of 16 bytes.")
    if span and inner > span:
        raise InputError(
            f"{elements}; swizzle={map_.swizzle!r} takes at most {span}: use several boxes."
        )


def _check_base(map_: TensorMap) -> None:
    base = map_.base
    if not isinstance(base, np.ndarray):
        step = _alignment(map_)
        if not hasattr(base, "__index__") or not 0 < base < 2**64 or base % step:
            raise InputError(
                f"base={base!r} must be an array or a device address that is a multiple of {step}."
            )
        object.__setattr__(map_, "base", index(base))
        return
    _check_whole(base)
    steps = zip(map_.shape, map_.byte_strides, strict=True)
    reach = sum((extent - 1) * stride for extent, stride in steps) + map_.element_bytes
    if reach > base.nbytes:
        raise InputError(
            f"shape={map_.shape} with strides={map_.strides} reaches {reach} bytes, and the array "
            f"has {base.nbytes}."
        )


def _check_whole(base: npt.NDArray[Any]) -> None:
    if not base.flags.c_contiguous:
        raise InputError(
            f"base is an array that is not C-contiguous (shape {base.shape}, strides "
            f"{base.strides} bytes); give the whole array, and `shape` and `strides` of the part."
        )


def _alignment(map_: TensorMap) -> int:
    """What addresses and strides must be multiples of."""
    return 32 if map_.interleave == "32B" else 16
