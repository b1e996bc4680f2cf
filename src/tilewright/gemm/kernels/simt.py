"""simt: fp32 matrices of any shape, strides and alignment, multiplied in fp32."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.gemm.kernels import strided
from tilewright.gemm.kernels.source import columns
from tilewright.gemm.kernels.strided import Job, Tile
from tilewright.gemm.plan import Plan
from tilewright.gemm.request import Request
from tilewright.gpus import Gpu

_PAD = 4  # elements behind each row of K


@dataclass(frozen=True)
class SimtTile(Tile):
    """A tile, and the sums of a thread: a warp has 8×4 of them."""

    @property
    def tm(self) -> int:
        return self.wm // 8

    @property
    def tn(self) -> int:
        return self.wn // 4

    def macros(self) -> dict[str, str]:
        return {**super().macros(), "TM": str(self.tm), "TN": str(self.tn)}

    @property
    def stage_bytes(self) -> int:
        return 4 * (self.bm + self.bn + 2 * _PAD) * self.bk


# Shares: sgemm_best, which has the first one's tile, reaches 0.74 of the datasheet's rate on an
# H200 at 4096³ (measurements/h200-simt.jsonl); those of the others are estimates.
TILES = (
    SimtTile(128, 256, 16, 64, 64, 1, 0.72),
    SimtTile(128, 128, 16, 64, 32, 2, 0.62),
    SimtTile(64, 64, 16, 32, 32, 4, 0.45),
)


class Simt:
    """Family "simt": fp32 operands and sums, never cut to tf32, on every GPU from sm_80 on."""

    name = "simt"

    def refusal(self, request: Request, gpu: Gpu) -> str | None:
        if request.a.dtype.name != "fp32":
            return f"multiplies fp32, not {request.a.dtype.name}"
        if why := strided.refusal(request, columns(request.epilogue)):
            return why
        return None if self.plans(request, gpu) else strided.TOO_MANY_BLOCKS

    def plans(self, request: Request, gpu: Gpu) -> tuple[Plan, ...]:
        """Of the tiles that this GPU's shared memory holds, and whose blocks a grid counts."""
        jobs = (Job(request, gpu, tile, tile.stage_bytes, gpu.fp32_tflops) for tile in TILES)
        return tuple(_plan(job) for job in jobs if job.fits)


def _plan(job: Job) -> Plan:
    """An operand along K is turned element by element."""
    a, b = job.copies()
    macros = {
        "A_K": str(int(a.along_k)),
        "B_K": str(int(b.along_k)),
        "VEC_A": str(1 if a.along_k else a.vector),
        "VEC_B": str(1 if b.along_k else b.vector),
    }
    return job.plan("simt", macros)


FAMILY = Simt()
