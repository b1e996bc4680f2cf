"""Element types: their widths, rounding units and names in every layer."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import InputError


@dataclass(frozen=True)
class DType:
    """One element type.

    `name` is the word used on the command line and in records, `cpp` the C++ type: the 16-bit
    ones are those of `cuda/ptx/element.cuh`. `unit_roundoff` is half the distance from 1 to the
    next number; `tiny` is the smallest positive subnormal; `largest` the largest finite number.
    tf32 is how the Tensor Cores read fp32: its matrices are fp32 in memory, C as well, and each
    element of A and B is cut to 11 bits of precision on its way into a product.
    """

    name: str
    bytes: int
    unit_roundoff: float
    tiny: float
    largest: float

    @property
    def cpp(self) -> str:
        return "float" if self.name in ("fp32", "tf32") else self.name

    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype. Raises InputError where bf16 is asked for without ml_dtypes."""
        if self.name != "bf16":
            return np.dtype(np.float16 if self.name == "fp16" else np.float32)
        try:
            bfloat16: np.dtype[Any] = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
        except ImportError:
            raise InputError(
                "bf16 arrays need the package ml_dtypes: pip install ml_dtypes "
                "(it comes with tilewright[cu13])."
            ) from None
        return bfloat16


BF16 = DType("bf16", 2, 2.0**-8, 2.0**-133, 3.3895313892515355e38)
FP16 = DType("fp16", 2, 2.0**-11, 2.0**-24, 65504.0)
TF32 = DType("tf32", 4, 2.0**-11, 2.0**-136, 3.4011621342146535e38)
FP32 = DType("fp32", 4, 2.0**-24, 2.0**-149, 3.4028234663852886e38)

DTYPES: dict[str, DType] = {dtype.name: dtype for dtype in (BF16, FP16, TF32, FP32)}
_ALIASES = {"bfloat16": "bf16", "float16": "fp16", "f16": "fp16", "half": "fp16", "float32": "fp32"}


def dtype_of(name: object) -> DType:
    """The type called `name`: bf16, fp16, fp32, or NumPy's and torch's types and their names."""
    if isinstance(name, DType):
        return name
    shown = name.__name__ if isinstance(name, type) else str(name)
    word = shown.removeprefix("torch.").lower()
    try:
        return DTYPES[_ALIASES.get(word, word)]
    except KeyError:
        raise InputError(f"dtype={shown!r} is not known; use {', '.join(DTYPES)}.") from None
