"""The cpu family: right for any shape, stride and type, and honest about what is too large."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.dtypes import BF16, DTYPES, FP32, DType
from tilewright.ladder.python_rungs import CPU, CpuRung
from tilewright.ladder.rungs import RUNGS
from tilewright.problem import Problem
from tilewright.verify import judge, oracle, random_operands

SHAPES = [(1, 1, 1), (1, 17, 130), (17, 1, 3), (130, 17, 1), (17, 33, 65), (128, 96, 32)]
LARGE = [(257, 300, 513), (256, 512, 768), (300, 255, 1)]  # tiles whole and cut

rungs = pytest.mark.parametrize("rung", CPU, ids=lambda rung: rung.name)


def poisoned(shape: tuple[int, int], dtype: DType) -> npt.NDArray[Any]:
    out = np.empty(shape, dtype.numpy())
    out.view(np.uint8).fill(0xFF)
    return out


@rungs
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape_and_type(rung: CpuRung, dtype: DType, shape: tuple[int, int, int]) -> None:
    a, b = random_operands(*shape, dtype, seed=2)
    c = poisoned((a.shape[0], b.shape[1]), dtype)
    rung.gemm(a, b, c)
    verdict = judge(c, oracle(a, b, dtype))
    assert verdict.correct, verdict.message


@pytest.mark.parametrize("name", ["cpu_blocked", "cpu_blas"])
@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_more_than_a_tile(name: str, shape: tuple[int, int, int]) -> None:
    rung = RUNGS[name]
    assert isinstance(rung, CpuRung)
    a, b = random_operands(*shape, FP32, seed=3)
    c = poisoned((a.shape[0], b.shape[1]), FP32)
    rung.gemm(a, b, c)
    verdict = judge(c, oracle(a, b, FP32))
    assert verdict.correct, verdict.message


@rungs
@pytest.mark.parametrize("dtype", [FP32, BF16], ids=lambda dtype: dtype.name)
def test_any_strides(rung: CpuRung, dtype: DType) -> None:
    """Columns in memory, every other row, steps backwards; what lies between is left alone."""
    a, b = random_operands(19, 23, 29, dtype, seed=4)
    wide = poisoned((23, 2 * 19), dtype)
    c = wide.T[::2]
    rung.gemm(np.asfortranarray(a), np.repeat(b, 2, axis=1)[::-1, ::2][::-1], c)
    verdict = judge(c, oracle(a, b, dtype))
    assert verdict.correct, verdict.message
    between = wide.T[1::2].astype(np.float32)
    assert np.isnan(between).all()


@rungs
def test_sums_are_in_fp32(rung: CpuRung) -> None:
    """2²⁴ + 1 is no fp32, so the 1 is lost; the library may add in another order."""
    a = np.array([[2.0**24, 1, -(2.0**24)]], np.float32)
    c = poisoned((1, 1), FP32)
    rung.gemm(a, np.ones((3, 1), np.float32), c)
    assert c[0, 0] in ((0,) if rung.name == "cpu_loops" else (0, 1))


def test_loops_refuse_what_takes_minutes() -> None:
    loops = RUNGS["cpu_loops"]
    assert loops.refusal(Problem(256, 384, 192, FP32)) is None
    assert loops.refusal(Problem(512, 256, 256, FP32)) is None
    assert loops.refusal(Problem(513, 256, 256, FP32)) == (
        "cpu_loops takes m·n·k up to 33,554,432, and 513·256·256 is 33,619,968; its loops in "
        "Python would take minutes or hours: give a smaller shape, as 256×384×192."
    )
    for name in ("cpu_blocked", "cpu_blas"):
        assert RUNGS[name].refusal(Problem(8192, 8192, 8192, BF16, "tt")) is None


def test_the_engine_is_the_host_whatever_is_open() -> None:
    assert {rung.engine(opened) for rung in CPU for opened in ("gpu", "emulator")} == {"cpu"}
