"""The rates and latencies that the models of a kernel's time reckon with, and where each is from.

One place: model.limiter and model.replay read them here, docs/limiter.md shows them, and a test
sets those with `pipes` against the newest lines of `tilewright pipes` in measurements/pipes/.
"""

from __future__ import annotations

from dataclasses import dataclass

MEASURED_ARCH = "sm_90"  # where the figures were read; for others they are assumed

_RECORD = "H200 at 1980 MHz, measurements/pipes/h200.jsonl, 2026-11-30T14:14:18Z"
_HOPPER = "H200 at 1965 to 1980 MHz, measurements/pipes/h200.jsonl, 2026-11-30T18:18:05Z"
_CORES = "R. Huerta et al., Analyzing Modern NVIDIA GPU cores, arXiv 2503.20481"
_TABLE = "CUDA C++ Programming Guide, throughput of native arithmetic instructions"


@dataclass(frozen=True, slots=True)
class Rate:
    """`pipes` are the names of the measurement lines that give the value, without "pipe: ".

    With one, its clocks, or how many a clock where the unit says so; with two, the bytes a clock
    between two tiles of one block, the smaller first, or by how many clocks the second is longer
    than the first. Without, no probe gives it.
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
    62.0,
    A_CLOCK,
    "264 blocks that read 4 MiB over and over by ld.global.cg, each byte four times at a time, as "
    f"blocks of a wave read one another's tiles; {_RECORD}",
    ("L2 read 4 MiB",),
)
L2_LATENCY = Rate(
    "a load from L2",
    362.0,
    "clocks",
    f"cp.async.cg of 512 bytes by a warp to behind the barrier; {_RECORD}",
    ("L2 tile of 512 bytes, 1 block",),
)
L2_BURST = Rate(
    "the bytes behind it",
    61.0,
    A_CLOCK,
    f"the same of 4 and 16 KiB by 256 threads, one block a multiprocessor; {_RECORD}",
    ("L2 tile of 4 KiB, 1 block", "L2 tile of 16 KiB, 1 block"),
)
TMA_LATENCY = Rate(
    "a load by TMA",
    370.0,
    "clocks",
    f"one box of 1 KiB, to behind the mbarrier and a barrier of the warp; {_HOPPER}",
    ("TMA tile of 1 KiB, 1 block",),
)
TMA_BURST = Rate(
    "the bytes behind it, by TMA",
    50.9,
    A_CLOCK,
    f"the same of 32 KiB, a step's tiles of 128x128x64, one block a multiprocessor; {_HOPPER}",
    ("TMA tile of 1 KiB, 1 block", "TMA tile of 32 KiB, 1 block"),
)
WGMMA_STEP = Rate(
    "a step of 128x256x64 by wgmma",
    1130.0,
    "clocks of NVML's reading, 1,024 by the data sheet",
    f"two warpgroups, tiles arriving; {_HOPPER}",
    ("wgmma step of 128x256x64, tiles arriving",),
)
SHARED_LATENCY = Rate(
    "a load from shared memory",
    23.0,
    "clocks, and one more for each further wavefront",
    _RECORD,
    ("shared load latency, 4 bytes",),
)
SHARED_WIDE = Rate(
    "one of 16 bytes a lane",
    33.0,
    "clocks, its four wavefronts among them, and one more for each beyond",
    _RECORD,
    ("shared load latency, 16 bytes",),
)
L1_REQUEST = Rate(
    "a load that L1 serves",
    1.0,
    "clocks, and one more for each further line of 128 bytes",
    f"{_RECORD}; loads of 32 lines take 32.1 there",
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
    f"{_CORES}; the probes of FMA rates, played through with it, are within 0.5 % of their lines",
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
TURN = Rate(
    "a turn of wgmma, where all wait for one step's products before the next",
    205.0,
    "clocks in which the tensor pipe stands still, and a test of the mbarrier",
    f"the wait, a barrier and the depth of the pipe; {_HOPPER}",
    ("wgmma step of 128x128x64", "wgmma step of 128x128x64, in turns"),
)
STORE_ROW = Rate(
    "a store of a row of 128 bytes",
    7.4,
    "clocks of its multiprocessor",
    f"all multiprocessors storing 4 bytes a lane; {_HOPPER}",
    ("store rate, 1 row of 128 bytes",),
)
STORE_PARTS = Rate(
    "a store to 8 rows of 16 bytes",
    30.2,
    "clocks of its multiprocessor",
    f"the same, as threads hold the sums of mma and wgmma: 8 sectors, half of each; {_HOPPER}",
    ("store rate, 8 rows of 16 bytes",),
)

FMA_LANES = {"sm_80": 64}  # of an SM; the programming guide's table, else 128
OTHER_FMA_LANES = 128

ALL: tuple[Rate, ...] = (
    MMA_SYNC,
    L2_RATE,
    L2_LATENCY,
    L2_BURST,
    TMA_LATENCY,
    TMA_BURST,
    WGMMA_STEP,
    SHARED_LATENCY,
    SHARED_WIDE,
    L1_REQUEST,
    INTEGER_CLOCKS,
    READ_CLOCKS,
    QUEUE,
    BARRIER,
    TURN,
    STORE_ROW,
    STORE_PARTS,
)
