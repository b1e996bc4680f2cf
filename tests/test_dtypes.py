"""Element types agree with NumPy and ml_dtypes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tilewright.dtypes import BF16, DTYPES, FP16, FP32, TF32, DType, dtype_of
from tilewright.errors import InputError

ml_dtypes = pytest.importorskip("ml_dtypes", reason="bf16 arrays need ml_dtypes")


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda d: d.name)
def test_figures_are_the_formats(dtype: DType) -> None:
    info = ml_dtypes.finfo(dtype.numpy())
    if dtype is TF32:  # fp32 in memory, and of its 24 bits of precision 11
        assert dtype.numpy() == np.float32
        assert dtype.bytes == 4
        assert dtype.unit_roundoff == float(info.eps) / 2 * 2**13
        assert dtype.tiny == float(info.smallest_subnormal) * 2**13
        assert dtype.largest == (2 - 2**-10) * 2.0**127
        return
    assert dtype.bytes == dtype.numpy().itemsize
    assert dtype.unit_roundoff == float(info.eps) / 2
    assert dtype.tiny == float(info.smallest_subnormal)
    assert dtype.largest == float(info.max)


@pytest.mark.parametrize(
    ("word", "dtype"),
    [
        ("bf16", BF16),
        ("bfloat16", BF16),
        ("torch.bfloat16", BF16),
        ("float16", FP16),
        ("half", FP16),
        ("float32", FP32),
    ],
)
def test_names(word: str, dtype: DType) -> None:
    assert dtype_of(word) is dtype


def test_an_unknown_name() -> None:
    with pytest.raises(InputError, match="dtype='fp12' is not known; use bf16, fp16, tf32, fp32"):
        dtype_of("fp12")


def test_bf16_without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(InputError, match="pip install ml_dtypes"):
        BF16.numpy()
    assert FP16.numpy() == np.float16
