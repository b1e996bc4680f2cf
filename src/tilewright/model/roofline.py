"""How fast a kernel can be, from its operations and its bytes.

A kernel that does I operations for each byte it moves can do at most I * bandwidth a second, and
at most what the arithmetic pipes give. Where both roofs meet lies the *machine balance*: kernels
of a lower intensity are bound by memory, those above by arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.errors import InputError
from tilewright.model.checks import check_positive

if TYPE_CHECKING:
    from tilewright.gpus import Gpu

_OLDEST_FP8 = 89


def peak_tflops(gpu: Gpu, dtype: str) -> float:
    """Dense TFLOP/s of a GPU of the table for a format, by its data sheet.

    fp32 runs on the FMA pipes, all others on the Tensor Cores with fp32 accumulation: tf32 at
    half the rate of bf16, 8-bit formats at twice it (from sm_89 on).
    Raises: InputError for a format that the GPU's Tensor Cores do not take.
    """
    match dtype:
        case "fp32":
            return gpu.fp32_tflops
        case "tf32":
            return gpu.tensor_tflops / 2
        case "bf16" | "fp16":
            return gpu.tensor_tflops
        case "e4m3" | "e5m2":
            if int(gpu.arch.removeprefix("sm_")) < _OLDEST_FP8:
                raise InputError(f"dtype={dtype}: {gpu.title} ({gpu.arch}) has no 8-bit floats.")
            return gpu.tensor_tflops * 2
    raise InputError(f"dtype={dtype!r} has no peak rate in the table.")


@dataclass(frozen=True, slots=True)
class Roof:
    """`tflops` of the pipes over `gbps` (10^9 bytes a second) of a memory.

    Raises: InputError unless both are positive.
    """

    tflops: float
    gbps: float

    def __post_init__(self) -> None:
        check_positive(tflops=self.tflops, gbps=self.gbps)

    @property
    def balance(self) -> float:
        """FLOP per byte above which the pipes are the limit."""
        return self.tflops * 1e3 / self.gbps

    def attainable(self, intensity: float) -> float:
        """TFLOP/s at most for a kernel of this intensity, in FLOP per byte."""
        return min(self.tflops, intensity * self.gbps / 1e3)

    def bound(self, intensity: float) -> str:
        """ "memory" or "arithmetic"."""
        return "memory" if intensity < self.balance else "arithmetic"


def gemm_flops(m: int, n: int, k: int) -> int:
    """A multiplication and an addition for each term."""
    return 2 * m * n * k


def gemm_bytes(m: int, n: int, k: int, element_bytes: int, out_bytes: int | None = None) -> int:
    """A, B and C once each: the least that must move. C's elements are `out_bytes` wide."""
    out = element_bytes if out_bytes is None else out_bytes
    return element_bytes * (m * k + k * n) + out * m * n
