"""Tensor maps for the gpu engine: the driver turns what a TensorMap says into 128 bytes.

The function is called at its own address: the binding of cuda-bindings 13.5 puts its result into
a Python object, which is aligned to 16 bytes, and the driver wants 64.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING

from tilewright.errors import EngineError, InputError
from tilewright.tensormap import MAP_ALIGNMENT, MAP_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tilewright.engines.driver import Driver
    from tilewright.tensormap import TensorMap

_FUNCTION = "cuTensorMapEncodeTiled"
_CUDA = 12000  # the version that brought it
_MOST_KEPT = 4096  # encoded maps, of 128 bytes each

_DTYPES = {
    "u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "s32": "INT32", "u64": "UINT64",
    "s64": "INT64", "fp16": "FLOAT16", "bf16": "BFLOAT16", "fp32": "FLOAT32",
    "fp32_ftz": "FLOAT32_FTZ", "tf32": "TFLOAT32", "tf32_ftz": "TFLOAT32_FTZ", "fp64": "FLOAT64",
}  # fmt: skip
_FILLS = {"zero": "NONE", "nan": "NAN_REQUEST_ZERO_FMA"}

_Numbers64, _Numbers32 = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32)
_ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,  # type
    ctypes.c_uint32,  # rank
    ctypes.c_void_p,
    _Numbers64,  # extents
    _Numbers64,  # strides
    _Numbers32,  # box
    _Numbers32,  # element strides
    *(ctypes.c_int,) * 4,  # interleave, swizzle, L2 promotion, out-of-bounds fill
)


class TensorMapEncoder:
    """Encodes tensor maps and keeps the results, by all that a map says.

    Raises: EngineError when the driver has no tensor maps or refuses one, with the map;
    InputError for a map whose base is an array of the host.
    Cost: about a microsecond a new map, a dictionary look-up for a known one.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._function: Callable[..., int] | None = None
        self.encode = lru_cache(maxsize=_MOST_KEPT)(self._encode)

    def _encode(self, tensor_map: TensorMap) -> bytes:
        if not isinstance(tensor_map.base, int):
            raise InputError(
                "a launch on a GPU takes tensor maps of device addresses, and this one's base is "
                "an array of the host; upload it and give tensor_map.at(buffer.address)."
            )
        if self._function is None:
            self._function = self._found()
        room = (ctypes.c_char * (MAP_BYTES + MAP_ALIGNMENT))()
        address = -(-ctypes.addressof(room) // MAP_ALIGNMENT) * MAP_ALIGNMENT
        code = self._function(
            address,
            self._enum("DataType", f"DATA_TYPE_{_DTYPES[tensor_map.dtype]}"),
            tensor_map.rank,
            tensor_map.base,
            _array(ctypes.c_uint64, tensor_map.shape),
            _array(ctypes.c_uint64, tensor_map.strides),
            _array(ctypes.c_uint32, tensor_map.box),
            _array(ctypes.c_uint32, tensor_map.element_strides),
            self._enum("Interleave", f"INTERLEAVE_{tensor_map.interleave.upper()}"),
            self._enum("Swizzle", f"SWIZZLE_{tensor_map.swizzle.upper()}"),
            self._enum("L2promotion", f"L2_PROMOTION_{_promotion(tensor_map.l2_promotion)}"),
            self._enum("FloatOOBfill", f"FLOAT_OOB_FILL_{_FILLS[tensor_map.oob_fill]}"),
        )
        if code != 0:
            raise EngineError(f"{self._driver.failed(_FUNCTION, code)} It was given {tensor_map}.")
        return ctypes.string_at(address, MAP_BYTES)

    def _found(self) -> Callable[..., int]:
        try:
            address = int(self._driver("cuGetProcAddress", _FUNCTION.encode(), _CUDA, 0)[0])
        except EngineError as error:
            raise EngineError(f"this driver has no tensor maps ({error}) Update it.") from None
        if not address:
            raise EngineError(f"this driver has no {_FUNCTION}; it is older than CUDA 12.0.")
        return _ENCODE(address)

    def _enum(self, kind: str, word: str) -> int:
        return int(self._driver.enum(f"CUtensorMap{kind}", f"CU_TENSOR_MAP_{word}"))


def _promotion(word: str) -> str:
    return "NONE" if word == "none" else f"L2_{word}"


def _array(kind: type[ctypes.c_uint32 | ctypes.c_uint64], numbers: Sequence[int]) -> object:
    return (kind * max(len(numbers), 1))(*numbers)
