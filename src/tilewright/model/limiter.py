"""What binds a kernel on a GPU, from what the emulator counted: each resource's time, and a guess.

Each resource alone would take a certain time; the kernel cannot be faster than the slowest of
them, which *binds*. How much slower it is depends on how well the resources overlap: that is
estimated by treating the resident blocks of an SM as customers of its pipes (model.queueing).

  tensor    mma instructions, at the rate that mma.sync reaches
  fma       fp32 instructions, 32 lanes each, on the FMA pipes
  shared    wavefronts of shared memory, one a clock
  issue     instructions, one a clock for each of 4 schedulers
  l2        sectors that blocks read and write, at 48 bytes a clock for each SM
  dram      bytes that must come from memory, at the data sheet's bandwidth
  latency   of the loads that nothing hides, divided among the resident blocks

Not modelled: hits in the L1 cache, clocks below boost at the power limit, barriers, and
dependent instructions within a warp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.errors import InputError
from tilewright.model.occupancy import SCHEDULERS
from tilewright.model.queueing import round_time
from tilewright.model.waves import waves

if TYPE_CHECKING:
    from tilewright.gpus import Gpu

RESOURCES = ("tensor", "fma", "shared", "issue", "l2", "dram", "latency")

MEASURED_ARCH = "sm_90"  # where the figures below were read; for others they are assumed

# What mma.sync, fed from registers, reaches of the data sheet's rate at its clock: 606 to 619
# TFLOP/s at 1890 to 1950 MHz ("roof: mma rate" in measurements/, H200, 2026-11-30). Hopper keeps
# the rest for wgmma; the others are built for mma.sync.
MMA_SYNC_SHARE = {"sm_90": 0.593}
FMA_LANES = {"sm_80": 64}  # of an SM; NVIDIA's table of arithmetic throughput, else 128
OTHER_FMA_LANES = 128

# L2 of an H200 at 1980 MHz, 2026-11-30: 264 blocks of 512 threads that read 16 to 32 MiB again
# and again with ld.global.cg get 44 to 49 bytes a clock for each SM. cp.async.cg of a tile by
# 256 threads, from its first instruction to after the barrier, with 264 blocks at it: 4 KiB in
# 393 clocks, 16 KiB in 556, hence the latency and the burst (from DRAM about 860 and 1200).
L2_BYTES_A_CLOCK = 48.0
L2_LATENCY_CLOCKS = 340.0
L2_BURST_BYTES_A_CLOCK = 75.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one block: `mma_flops` and `fma_issues`, wavefronts, instructions issued by warps, bytes.

    `mma_scale` is the rate of the mma's type over that of bf16: 0.5 for tf32, 2 for 8 bits.
    """

    mma_flops: float
    fma_issues: float
    shared_wavefronts: float
    instructions: float
    load_bytes: float
    store_bytes: float
    mma_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Run:
    """How a kernel is launched: `steps` K steps a block, tiles in `buffers` buffers.

    `dram_bytes` is what the whole launch must bring from memory or write to it. `streams` are
    the customers that a block is: parts of its work that do not wait for one another.
    """

    blocks: int
    blocks_per_sm: int
    steps: int
    buffers: int
    dram_bytes: float
    streams: int = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """Microseconds by resource, the one that binds, and the time that they take together."""

    us: dict[str, float]
    predicted_us: float

    @property
    def binding(self) -> str:
        return max(self.us, key=lambda name: self.us[name])

    @property
    def overlap(self) -> float:
        """The binding resource's share of the predicted time: 1 when all else is hidden."""
        return self.us[self.binding] / self.predicted_us


def limits(counts: Counts, run: Run, gpu: Gpu) -> Limits:
    """Raises: InputError for a launch that is not possible."""
    if run.blocks_per_sm < 1:
        raise InputError(f"no block of the kernel fits on an SM of {gpu.title}.")
    pipes = _pipe_clocks(counts, gpu)
    exposed = exposed_latency(counts, pipes, run)
    per_sm = run.blocks / gpu.sms  # blocks that an SM works off
    clocks = {name: each * per_sm for name, each in pipes.items()}
    clocks["latency"] = exposed * per_sm / run.blocks_per_sm
    us = {name: each / gpu.boost_mhz for name, each in clocks.items()}  # a clock is 1/MHz us
    us["dram"] = run.dram_bytes / gpu.memory_gbps / 1e3
    together = _launch_clocks(counts, pipes, exposed, run, gpu) / gpu.boost_mhz
    floor = max(us["dram"], us["issue"], us["l2"])
    return Limits({name: us[name] for name in RESOURCES}, max(together, floor))


def _pipe_clocks(counts: Counts, gpu: Gpu) -> dict[str, float]:
    """Clocks that each pipe of an SM is busy for one block."""
    share = MMA_SYNC_SHARE.get(gpu.arch, 1.0) * counts.mma_scale
    mma_rate = gpu.tensor_tflops * 1e6 / (gpu.sms * gpu.boost_mhz) * share
    lanes = FMA_LANES.get(gpu.arch, OTHER_FMA_LANES)
    return {
        "tensor": counts.mma_flops / mma_rate,
        "fma": counts.fma_issues * 32 / lanes,
        "shared": counts.shared_wavefronts,
        "issue": counts.instructions / SCHEDULERS,
        "l2": (counts.load_bytes + counts.store_bytes) / L2_BYTES_A_CLOCK,
    }


def _path(counts: Counts, pipes: dict[str, float]) -> list[float]:
    """What the warps of a block wait for in turn; issue and loads run beside them."""
    stores = counts.store_bytes / L2_BYTES_A_CLOCK
    return [pipes["tensor"], pipes["fma"], pipes["shared"], stores]


def exposed_latency(counts: Counts, pipes: dict[str, float], run: Run) -> float:
    """Clocks of a block in which it waits for loads, over all its steps.

    With one buffer every load is waited for; with N only what N - 1 steps of work, at full
    residency, leave over. The first load is waited for always.
    """
    load = L2_LATENCY_CLOCKS + counts.load_bytes / run.steps / L2_BURST_BYTES_A_CLOCK
    working = _round(_path(counts, pipes), 0.0, run.blocks_per_sm, run) / run.steps
    left = max(0.0, load - (run.buffers - 1) * working)
    return load + (run.steps - 1) * left


def _launch_clocks(
    counts: Counts, pipes: dict[str, float], exposed: float, run: Run, gpu: Gpu
) -> float:
    """All waves one after the other; a last one that leaves SMs with fewer blocks is shorter."""
    passes = waves(run.blocks, gpu.sms, run.blocks_per_sm)
    path = _path(counts, pipes)
    clocks = passes.full * _round(path, exposed, run.blocks_per_sm, run)
    if passes.tail:
        clocks += _round(path, exposed, -(-passes.tail // gpu.sms), run)
    return clocks


def _round(path: list[float], exposed: float, blocks: int, run: Run) -> float:
    """The time of so many blocks on an SM, each of which is several customers with equal parts."""
    return round_time([part / run.streams for part in path], exposed, blocks * run.streams)
