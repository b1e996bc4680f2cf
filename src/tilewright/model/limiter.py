"""What binds a kernel on a GPU, from what the emulator counted: each resource's time, and a guess.

Each resource alone would take a certain time; the kernel cannot be faster than the slowest of
them, which *binds*. How much slower it is depends on how well the resources overlap. Of kernels
of mma that is estimated by treating the resident blocks of an SM as customers of its pipes
(model.queueing); for kernels of FMAs, which the issue of instructions binds or nearly, the machine
code of a K step is played through (model.replay); of those whose loads and products run by
themselves, as on Hopper, a step takes what its slowest pipe takes (model.async_step).

  tensor    mma instructions and wgmma, at the rates that each reaches
  fma       fp32 instructions, 32 lanes each, on the FMA pipes
  shared    wavefronts of shared memory, one a clock, or 128 bytes of what wgmma and bulk stores
            read; what TMA brings is written beside them, and takes nothing from them
  issue     instructions, one a clock for each of 4 schedulers
  l1        lines of 128 bytes that loads look up in the L1 cache, one a clock; and stores from
            registers behind wgmma
  l2        sectors that blocks read and write, at the rate that L2 has for each SM
  dram      bytes that must come from memory, at the data sheet's bandwidth
  latency   of the loads that nothing hides, divided among the resident blocks

Not modelled: which clock the power limit leaves (`mhz` can tell it), the start of a launch and of
blocks, and in the queues barriers and dependent instructions within a warp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.errors import InputError
from tilewright.model.async_step import tma_clocks
from tilewright.model.occupancy import SCHEDULERS
from tilewright.model.queueing import round_time
from tilewright.model.rates import (
    FMA_LANES,
    L2_BURST,
    L2_LATENCY,
    L2_RATE,
    MEASURED_ARCH,
    MMA_SYNC,
    OTHER_FMA_LANES,
    STORE_ROW,
    WGMMA_STEP,
)
from tilewright.model.waves import waves

if TYPE_CHECKING:
    from tilewright.gpus import Gpu

SHARED_BYTES = 128  # that shared memory gives in a clock: a wavefront
STORE_BYTES = 128 / STORE_ROW.value  # a clock and multiprocessor, of whole rows
WGMMA_FLOPS = 2 * 128 * 256 * 64 / WGMMA_STEP.value  # a clock and multiprocessor, of 16 bits

RESOURCES = ("tensor", "fma", "shared", "issue", "l1", "l2", "dram", "latency")

Played = Callable[[int], float]  # clocks of a K step of so many resident blocks, each one


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one block: `mma_flops` and `fma_issues`, wavefronts, instructions issued by warps, bytes
    that L2 serves.

    `l1_clocks` are those in which L1 looks up the lines of loads from global memory. `mma_scale`
    is the rate of the mma's type over that of bf16: 0.5 for tf32, 2 for 8 bits. `wgmma_bytes` are
    those that wgmma reads in shared memory, `fill_bytes` what bulk copies write there and
    `drain_bytes` what they read. Where C leaves after the last products, `store_clocks` are those
    of its stores from registers, and `staged` the wavefronts in which it goes through shared
    memory.
    """

    mma_flops: float
    fma_issues: float
    shared_wavefronts: float
    instructions: float
    load_bytes: float
    store_bytes: float
    mma_scale: float = 1.0
    l1_clocks: float = 0.0
    wgmma_flops: float = 0.0
    wgmma_bytes: float = 0.0
    fill_bytes: float = 0.0
    drain_bytes: float = 0.0
    store_clocks: float = 0.0
    staged: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """How a kernel is launched: `steps` K steps a block, tiles in `buffers` buffers (0: no tiles).

    `dram_bytes` is what the whole launch must bring from memory or write to it. `streams` are
    the customers that a block is: parts of its work that do not wait for one another.
    Of `persistent` blocks only the first load of a launch is waited for. `turn` are the clocks in
    which the products of a step are waited for before the next.
    """

    blocks: int
    blocks_per_sm: int
    steps: int
    buffers: int
    dram_bytes: float
    streams: int = 1
    persistent: bool = False
    turn: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Microseconds by resource, the one that binds, and the time that they take together, at the
    clock `mhz`."""

    us: dict[str, float]
    predicted_us: float
    mhz: float

    @property
    def binding(self) -> str:
        return max(self.us, key=lambda name: self.us[name])

    @property
    def overlap(self) -> float:
        """The binding resource's share of the predicted time: 1 when all else is hidden."""
        return self.us[self.binding] / self.predicted_us


def limits(
    counts: Counts, run: Run, gpu: Gpu, played: Played | None = None, mhz: float | None = None
) -> Limits:
    """`played` tells what a K step takes; without it the queues of blocks do. `mhz` is the clock
    that the kernel ran at, where it is known; else the data sheet's.

    Raises: InputError for a launch that is not possible.
    """
    if run.blocks_per_sm < 1:
        raise InputError(f"no block of the kernel fits on an SM of {gpu.title}.")
    pipes = _pipe_clocks(counts, gpu)
    exposed = exposed_latency(counts, pipes, run)
    per_sm = run.blocks / gpu.sms  # blocks that an SM works off
    clocks = {name: each * per_sm for name, each in pipes.items()}
    clocks["latency"] = exposed * per_sm / run.blocks_per_sm
    mhz = mhz or clock_mhz(counts, gpu)
    us = {name: each / mhz for name, each in clocks.items()}  # a clock is 1/MHz us
    us["dram"] = run.dram_bytes / gpu.memory_gbps / 1e3
    if played is None:
        together = _launch_clocks(counts, pipes, exposed, run, gpu) / mhz
    else:
        together = _played_clocks(counts, played, run, gpu) / mhz
    floor = max(us["dram"], us["issue"], us["l1"], us["l2"])
    return Limits({name: us[name] for name in RESOURCES}, max(together, floor), mhz)


def clock_mhz(counts: Counts, gpu: Gpu) -> float:
    """The clock at which the data sheet states the rate of the pipe that the kernel multiplies by.

    An H200's are 1830 MHz for the Tensor Cores, which run into the power limit, and 1980 MHz for
    fp32; most GPUs have one for both.
    """
    if counts.mma_flops or counts.wgmma_flops or not counts.fma_issues:
        return gpu.boost_mhz
    return gpu.fp32_tflops * 1e6 / (2 * gpu.sms * _fma_lanes(gpu))


def _fma_lanes(gpu: Gpu) -> int:
    return FMA_LANES.get(gpu.arch, OTHER_FMA_LANES)


def _pipe_clocks(counts: Counts, gpu: Gpu) -> dict[str, float]:
    """Clocks that each pipe of an SM is busy for one block."""
    share = (MMA_SYNC.value if gpu.arch == MEASURED_ARCH else 1.0) * counts.mma_scale
    rate = flops_a_clock(gpu)
    read = counts.wgmma_bytes + counts.drain_bytes
    return {
        "tensor": counts.mma_flops / (rate * share) + counts.wgmma_flops / WGMMA_FLOPS,
        "fma": counts.fma_issues * 32 / _fma_lanes(gpu),
        "shared": counts.shared_wavefronts + read / SHARED_BYTES,
        "issue": counts.instructions / SCHEDULERS,
        "l1": counts.l1_clocks + counts.store_clocks,
        "l2": (counts.load_bytes + counts.store_bytes) / L2_RATE.value,
    }


def flops_a_clock(gpu: Gpu) -> float:
    """Of one SM's Tensor Cores by the data sheet, for 16 bits: 4096 on Hopper."""
    return gpu.tensor_tflops * 1e6 / (gpu.sms * gpu.boost_mhz)


def _path(counts: Counts, pipes: dict[str, float]) -> list[float]:
    """What the warps of a block wait for in turn; issue and loads run beside them."""
    stores = counts.store_bytes / L2_RATE.value
    memory = pipes["shared"] + pipes["l1"]  # one memory, behind one pipe
    return [pipes["tensor"], pipes["fma"], memory, stores]


def exposed_latency(counts: Counts, pipes: dict[str, float], run: Run) -> float:
    """Clocks of a block in which it waits for loads, over all its steps.

    With one buffer every load is waited for; with N only what N - 1 steps of work, at full
    residency, leave over. The first load is waited for always, and without tiles only that.
    """
    load = _load_clocks(counts, run)
    if not run.buffers:
        return load
    working = _round(_path(counts, pipes), 0.0, run.blocks_per_sm, run) / run.steps
    left = max(0.0, load - (run.buffers - 1) * working)
    return load + (run.steps - 1) * (left + run.turn)


def _load_clocks(counts: Counts, run: Run) -> float:
    """From the issue of one step's loads to their last byte: by TMA, or by the warps."""
    if counts.fill_bytes:
        return tma_clocks(counts.fill_bytes / run.steps)
    return L2_LATENCY.value + counts.load_bytes / run.steps / L2_BURST.value


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


def _played_clocks(counts: Counts, played: Played, run: Run, gpu: Gpu) -> float:
    """All waves one after the other, each of all K steps, a first load and the stores.

    Bulk stores run beside the next tile's products, so that blocks which stay wait for the last
    alone, as for the first load.
    """
    stores = max((counts.store_bytes - counts.drain_bytes) / L2_RATE.value, counts.store_clocks)
    leaving = stores + counts.staged
    load = _load_clocks(counts, run) if counts.fill_bytes else L2_LATENCY.value
    ends = load + counts.drain_bytes / STORE_BYTES

    def wave(blocks: int) -> float:
        return run.steps * played(blocks) + blocks * leaving + ends * (not run.persistent)

    passes = waves(run.blocks, gpu.sms, run.blocks_per_sm)
    clocks = passes.full * wave(run.blocks_per_sm) if passes.full else 0.0
    rest = -(-passes.tail // gpu.sms)
    return clocks + (wave(rest) if rest else 0.0) + ends * run.persistent


def _round(path: list[float], exposed: float, blocks: int, run: Run) -> float:
    """The time of so many blocks on an SM, each of which is several customers with equal parts."""
    return round_time([part / run.streams for part in path], exposed, blocks * run.streams)
