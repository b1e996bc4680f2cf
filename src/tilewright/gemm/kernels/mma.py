"""mma: 16-bit matrices of any shape, strides and alignment, multiplied by mma.sync."""

from __future__ import annotations

from tilewright.gemm.kernels import strided
from tilewright.gemm.kernels.source import columns
from tilewright.gemm.kernels.strided import Job, Tile
from tilewright.gemm.plan import Plan
from tilewright.gemm.request import Request
from tilewright.gpus import Gpu

_WHOLE = 8  # elements in the 16 bytes of the widest copy
_WIDEST = 64 * 64  # sums of a warp, beside which its lanes have registers for whole copies only

# Shares: of the datasheet's rate on an H200 at 4096³ hgemm_best reaches 0.45, hgemm_w64 0.40 and
# hgemm_k_stages 0.34 (measurements/h200-hgemm.jsonl); the last one is an estimate. That rate is
# wgmma's. Where it is mma.sync's own they count for more: an estimate, unmeasured.
_WGMMA_ARCH = "sm_90"
_WITHOUT_WGMMA = 1.5
TILES = (
    Tile(256, 128, 64, 64, 64, 1, 0.44),
    Tile(128, 128, 32, 64, 64, 2, 0.40),
    Tile(128, 128, 32, 64, 32, 1, 0.34),
    Tile(64, 64, 64, 32, 32, 2, 0.22),
)


class Mma:
    """Family "mma": bf16 and fp16, sums in fp32, on every GPU from sm_80 on."""

    name = "mma"

    def refusal(self, request: Request, gpu: Gpu) -> str | None:
        if request.a.dtype.name not in ("bf16", "fp16"):
            return f"multiplies bf16 and fp16, not {request.a.dtype.name}"
        if why := strided.refusal(request, columns(request.epilogue)):
            return why
        return None if self.plans(request, gpu) else strided.TOO_MANY_BLOCKS

    def plans(self, request: Request, gpu: Gpu) -> tuple[Plan, ...]:
        """Of the tiles that this GPU's shared memory holds, and whose blocks a grid counts."""
        rate = gpu.tensor_tflops * (1 if gpu.arch == _WGMMA_ARCH else _WITHOUT_WGMMA)
        jobs = (Job(request, gpu, tile, _stage_bytes(tile), rate) for tile in TILES)
        return tuple(_plan(job) for job in jobs if job.fits and _has_room(job))


def _stage_bytes(tile: Tile) -> int:
    return 2 * (tile.bm + tile.bn) * tile.bk


def _has_room(job: Job) -> bool:
    """Copies of less than 16 bytes take registers: for elements on their way, or for addresses."""
    whole = all(copy.vector == _WHOLE for copy in job.copies())
    return whole or job.tile.wm * job.tile.wn < _WIDEST


def _plan(job: Job) -> Plan:
    a, b = job.copies()
    macros = {
        "A_K": str(int(a.along_k)),
        "B_K": str(int(b.along_k)),
        "VEC_A": str(a.vector),
        "VEC_B": str(b.vector),
    }
    return job.plan("mma", macros)


FAMILY = Mma()
