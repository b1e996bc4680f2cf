"""The rates and latencies that the models of a kernel's time reckon with, and where each is from.

One place: model.limiter and model.replay read them here, docs/limiter.md shows them, and a test
sets those with `pipes` against the newest lines of `tilewright pipes` in measurements/.
"""

from __future__ import annotations

from dataclasses import dataclass

MEASURED_ARCH = "sm_90"  # where the figures were read; for others they are assumed

_READ = "H200 at 1980 MHz, 2026-11-30, not kept"  # read off a probe whose record was not kept
_CORES = "R. Huerta et al., Analyzing Modern NVIDIA GPU cores, arXiv 2503.20481"
_TABLE = "CUDA C++ Programming Guide, throughput of native arithmetic instructions"


@dataclass(frozen=True, slots=True)
class Rate:
    """`pipes` are the names of the measurement lines that give the value, without "pipe: ".

    With one, its clocks, or how many a clock where the unit says so; with two, the bytes a clock
    between two tiles, the smaller first. Without, no probe gives it.
    """

    what: str
    value: float
    unit: str
    source: str
    pipes: tuple[str, ...] = ()


A_CLOCK = "bytes a clock and multiprocessor"

# Of the data sheet's rate at its clock what mma.sync, fed from registers, reaches on sm_90. Hopper
# keeps the rest for wgmma; the others are built for mma.sync.
MMA_SYNC = Rate(
    "mma.sync",
    0.593,
    "of the data sheet's rate on sm_90, all of it elsewhere",
    "606 to 619 TFLOP/s at 1890 to 1950 MHz, the lines `roof: mma rate`, H200, 2026-11-30",
)
L2_RATE = Rate(
    "L2",
    48.0,
    A_CLOCK,
    f"264 blocks of 512 threads that read 16 to 32 MiB over and over by ld.global.cg: 44 to 49; "
    f"55 to 61 within 4 to 8 MiB; {_READ}",
    ("L2 read 16 MiB",),
)
L2_LATENCY = Rate(
    "a load from L2",
    340.0,
    "clocks",
    f"cp.async.cg of 4 KiB by 256 threads to behind the barrier, 264 blocks at it: 393; {_READ}",
    ("L2 tile of 512 bytes, 1 block",),
)
L2_BURST = Rate(
    "the bytes behind it",
    75.0,
    A_CLOCK,
    f"the same with 16 KiB: 556; {_READ}",
    ("L2 tile of 4 KiB, 2 blocks", "L2 tile of 16 KiB, 2 blocks"),
)
SHARED_LATENCY = Rate(
    "a load from shared memory",
    31.0,
    "clocks, and one more for each further wavefront",
    "assumed, of 29 to 33 that are told of recent GPUs",
    ("shared load latency, 4 bytes",),
)
L1_REQUEST = Rate(
    "a load that L1 serves",
    1.0,
    "clocks, and one more for each further line of 128 bytes",
    "assumed; sgemm_naive's 33 lines of two loads take 33.6",
    ("L1 load rate, 1 line",),
)
INTEGER_CLOCKS = Rate(
    "the issue of what is neither FMA nor load",
    2.0,
    "clocks of its pipe, for 64 lanes of a multiprocessor",
    _TABLE,
)
READ_CLOCKS = Rate(
    "the read of an FMA's registers",
    3.0,
    "clocks, within which its two banks give a register each a clock",
    _CORES,
)
QUEUE = Rate(
    "memory instructions of a scheduler that wait",
    4.0,
    "at most",
    f"{_CORES} (4 and a latch)",
)
BARRIER = Rate(
    "a barrier, from its last warp on",
    10.0,
    "clocks",
    "assumed; half or twice as many change a rung by 4 % at most",
)

FMA_LANES = {"sm_80": 64}  # of an SM; the programming guide's table, else 128
OTHER_FMA_LANES = 128

ALL: tuple[Rate, ...] = (
    MMA_SYNC,
    L2_RATE,
    L2_LATENCY,
    L2_BURST,
    SHARED_LATENCY,
    L1_REQUEST,
    INTEGER_CLOCKS,
    READ_CLOCKS,
    QUEUE,
    BARRIER,
)
