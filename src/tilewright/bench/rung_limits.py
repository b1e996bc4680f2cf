"""What one block of a rung costs by the emulator, its limits, and the time that was measured."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING

from tilewright.bench.inputs import operands
from tilewright.bench.ladder import build_rung, rung_launch
from tilewright.bench.record import Measurement
from tilewright.bench.rung_code import hash_of
from tilewright.bench.rung_replay import SECTOR, l1_clocks, played
from tilewright.bench.rung_replay import Played as PlayedCode
from tilewright.dtypes import DType
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import InputError
from tilewright.gpus import Gpu, gpu_reported
from tilewright.ladder.hopper_rung import HopperRung
from tilewright.ladder.rungs import KERNEL, KernelRung
from tilewright.model.async_step import TURN_CLOCKS, AsyncStep
from tilewright.model.limiter import WGMMA_FLOPS, Counts, Limits, Played, Run, limits
from tilewright.model.occupancy import blocks_per_sm
from tilewright.model.raster import Grid, order_named, wave_reads
from tilewright.model.rates import STORE_PARTS, STORE_ROW
from tilewright.problem import Problem

if TYPE_CHECKING:
    from tilewright.emulator.report import Access, Report

_WGMMA = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m(\d+)n(\d+)k(\d+)\.")
_WARPS_OF_A_GROUP = 4  # that issue one wgmma together
_MMA = re.compile(r"mma\.sync\.aligned\.m(\d+)n(\d+)k(\d+)\.")
_HALF_RATE, _TWICE = ("tf32",), ("e4m3", "e5m2", "s8", "u8")
_FP32 = re.compile(r"(fma|mul|add|sub)\.(r[nzmp]\.)?(ftz\.)?(sat\.)?f32$")
STEPS = (4, 8)  # K steps of the two runs; even, since loops are unrolled in twos
UNROLLED = 16  # steps of one k that the compiler makes in one pass, where there are no tiles
WARPS_OF_A_STREAM = 8  # two for each scheduler


@dataclass(frozen=True)
class Limited:
    """A rung on a problem: its limits, how it is resident, and the newest time measured.

    `model` says where the time of all together is from: "machine code", "pipes" or "queues".
    """

    rung: KernelRung
    problem: Problem
    gpu: Gpu
    limits: Limits
    run: Run
    measured: Measurement | None
    model: str = "queues"

    @property
    def error(self) -> float | None:
        """The model's time over the measured one, less one."""
        if self.measured is None:
            return None
        return self.limits.predicted_us / self.measured.us - 1


def limited(
    rung: KernelRung, problem: Problem, gpu: Gpu, lines: Iterable[Measurement] = ()
) -> Limited:
    """Counts one block at two depths of K and scales: blocks do equal work, steps too.

    Raises: InputError for a problem that the rung does not take, ToolchainError without NVRTC,
    UnsupportedError for what the emulator does not model.
    Cost: 0.1 s and a compilation; for kernels of FMAs a second more.
    """
    if why := rung.refusal(problem, gpu.shared_bytes_per_block, gpu.arch):
        raise InputError(why)
    low, high = depths(rung)
    few, many = (one_block(rung, problem, gpu, steps) for steps in (low, high))
    run = _run(rung, problem, gpu)
    blocks = math.prod(cluster(rung))
    first, second = counts_of(few, blocks), counts_of(many, blocks)
    counts = scaled(first, second, run.steps, (low, high))
    lines = list(lines)
    measured = newest(lines, rung, problem, gpu)
    if counts.wgmma_flops:
        play = _pipes(rung, first, second, high - low)
        found = limits(counts, run, gpu, play, clock(lines, rung, problem, gpu))
        return Limited(rung, problem, gpu, found, run, measured, "pipes")
    l2_share = _l2_share(rung, problem, counts)
    counts = replace(counts, load_bytes=counts.load_bytes * l2_share)
    a_step = (second.fma_issues - first.fma_issues) / (high - low)
    code = _code(rung, problem, gpu, many, a_step, l2_share)
    clocks = None
    if code is not None:
        counts = replace(counts, instructions=code.instructions * run.steps)
        clocks = code.clocks
    found = limits(counts, run, gpu, clocks)
    model = "machine code" if code is not None else "queues"
    return Limited(rung, problem, gpu, found, run, measured, model)


def _run(rung: KernelRung, problem: Problem, gpu: Gpu) -> Run:
    """How the rung is launched on the problem, and resident."""
    used = build_rung(rung, problem, gpu.arch).resources[KERNEL]
    shared = used.static_shared_bytes + rung.shared_bytes(problem.dtype)
    held = blocks_per_sm(gpu, rung.threads, used.registers, shared).blocks
    return Run(
        rung.tiles(problem),
        held,
        -(-problem.k // rung.tile.bk),
        rung.buffers,
        _dram_bytes(rung, problem, gpu, held),
        streams(rung),
        rung.persistent,
        TURN_CLOCKS if takes_turns(rung) else 0.0,
    )


def _pipes(rung: KernelRung, few: Counts, many: Counts, steps: int) -> Played:
    """What a K step takes whose loads and products run by themselves; the counts differ by so
    many steps."""
    step = AsyncStep(
        (many.wgmma_flops - few.wgmma_flops) / steps / WGMMA_FLOPS,
        (many.fill_bytes - few.fill_bytes) / steps,
        rung.buffers,
        takes_turns(rung),
    )
    return step.clocks


def takes_turns(rung: KernelRung) -> bool:
    """All warps of a Hopper rung wait for a step's products before the next, as those without
    roles do: they have no barriers for empty slots, which products in flight would need."""
    return isinstance(rung, HopperRung) and rung.wgmma and rung.barriers == rung.buffers


def cluster(rung: KernelRung) -> tuple[int, int]:
    """Blocks along m and n that run together."""
    return (rung.cluster_m, rung.cluster_n) if isinstance(rung, HopperRung) else (1, 1)


def _code(
    rung: KernelRung,
    problem: Problem,
    gpu: Gpu,
    report: Report,
    fma_issues: float,
    l2_share: float,
) -> PlayedCode | None:
    """The machine code of a kernel that multiplies by FMAs, if its K loop is found."""
    if any(_MMA.match(opcode) for opcode in report.instructions):
        return None
    cubin = build_rung(rung, problem, gpu.arch).cubin
    try:
        return played(cubin, KERNEL, rung.threads // 32, fma_issues, report, l2_share)
    except InputError:  # loops of a form that is not known: the queues are left
        return None


def depths(rung: KernelRung) -> tuple[int, int]:
    """K steps of the two runs that are counted."""
    times = 1 if rung.buffers else UNROLLED
    return STEPS[0] * times, STEPS[1] * times


def _l2_share(rung: KernelRung, problem: Problem, counts: Counts) -> float:
    """Of the bytes that a block loads those that L2 serves.

    All of them where they go to tiles. Without tiles L1 keeps what a block reads again within a
    few k, so that each element of its rows of A and columns of B comes from L2 once.
    """
    if rung.buffers:
        return 1.0
    once = (rung.tile.bm + rung.tile.bn) * problem.k * problem.dtype.bytes
    return min(1.0, once / counts.load_bytes)


def streams(rung: KernelRung) -> int:
    """The customers of an SM's pipes that a block is: with one set of fragments a warp, one.

    What a warp loads into a second set does not wait for the products of the first; eight warps
    with one set, as the article's rungs have, behave as one customer, so there is one more for
    each eight warps and set.
    """
    if rung.fragment_sets == 1:
        return 1
    return max(1, rung.threads * rung.fragment_sets // (32 * WARPS_OF_A_STREAM))


def one_block(rung: KernelRung, problem: Problem, gpu: Gpu, steps: int) -> Report:
    """The report of one block's tile of C, or of one cluster's, over so many steps of K.

    Cost: the emulation, once for a rung's code, type and layout: m, n and k don't matter.
    """
    return _one_block(rung, hash_of(rung), problem.dtype, problem.layout, gpu, steps)


@lru_cache(maxsize=256)
def _one_block(
    rung: KernelRung, code: str, dtype: DType, layout: str, gpu: Gpu, steps: int
) -> Report:
    """`code` is the hash of its present code, by which reports are kept."""
    tile, (down, across) = rung.tile, cluster(rung)
    small = Problem(tile.bm * down, tile.bn * across, tile.bk * steps, dtype, layout)
    engine = EmulatorEngine(gpu)
    a, b = map(engine.upload, operands(small, "zeros", 0))
    c = engine.empty((small.m, small.n), dtype.numpy())
    artifact = build_rung(rung, small, gpu.arch)
    return engine.launch(rung_launch(rung, artifact, small, (a, b, c), gpu.sms))


def counts_of(report: Report, blocks: int = 1) -> Counts:
    """Of a launch of so many blocks, what each costs, on average."""
    issued, totals = report.instructions, report.totals
    products = {opcode: match for opcode in issued if (match := _MMA.match(opcode))}
    flops = sum(
        issued[opcode] * 2 * int(match[1]) * int(match[2]) * int(match[3])
        for opcode, match in products.items()
    )
    fma = sum(count for opcode, count in issued.items() if _FP32.fullmatch(opcode))
    wgmma_flops = sum(map(_flops_of_wgmma, issued.items()))
    counts = Counts(
        flops,
        fma,
        totals["shared_wavefronts"],
        totals["instructions"],
        totals["global_sectors_load"] * SECTOR,
        totals["global_sectors_store"] * SECTOR,
        l1_clocks=_l1_clocks(report, "ld.global"),
        wgmma_flops=wgmma_flops,
        wgmma_bytes=totals["wgmma_shared_bytes"],
        fill_bytes=totals["bulk_load_bytes"] + totals["multicast_bytes"],
        drain_bytes=totals["bulk_store_bytes"],
        store_clocks=sum(map(store_clocks, report.accesses)) if wgmma_flops else 0.0,
        staged=totals["shared_wavefronts"] if wgmma_flops else 0.0,
    )
    each = Counts(*(value / blocks for value in astuple(counts)))
    return replace(each, mma_scale=_scale(products))


def _flops_of_wgmma(issued: tuple[str, int]) -> float:
    """Of an opcode and how often warps issued it; 0 for another."""
    opcode, count = issued
    match = _WGMMA.match(opcode)
    if match is None:
        return 0.0
    return count / _WARPS_OF_A_GROUP * 2 * int(match[1]) * int(match[2]) * int(match[3])


def _l1_clocks(report: Report, opcode: str) -> float:
    return sum(l1_clocks(each) for each in report.accesses if each.opcode.startswith(opcode))


def store_clocks(access: Access) -> float:
    """Of a store from registers to global memory, by its sectors: whole ones, or parts of them,
    which cost twice as much."""
    if not access.opcode.startswith("st.global"):
        return 0.0
    whole = access.bytes == access.sectors * SECTOR
    return access.sectors * (STORE_ROW.value / 4 if whole else STORE_PARTS.value / 8)


def _scale(products: Iterable[str]) -> float:
    """The rate of the mma's type over that of 16 bits."""
    words = {word for opcode in products for word in opcode.split(".")}
    if words & set(_HALF_RATE):
        return 0.5
    return 2.0 if words & set(_TWICE) else 1.0


def scaled(few: Counts, many: Counts, steps: int, at_steps: tuple[int, int] = STEPS) -> Counts:
    """The counts at `steps` from those at two depths: a part per step and a rest."""
    first, second = at_steps

    def at(low: float, high: float) -> float:
        return low + (high - low) * (steps - first) / (second - first)

    return Counts(*map(at, astuple(few), astuple(many)))


def _dram_bytes(rung: KernelRung, problem: Problem, gpu: Gpu, held: int) -> int:
    """C once, and A and B once where they fit the L2 cache, else once for each wave."""
    tile, e, (down, across) = rung.tile, problem.dtype.bytes, cluster(rung)
    grid = Grid(problem.m, problem.n, problem.k, tile.bm * down, tile.bn * across, e)
    out = problem.m * problem.n * e
    if grid.least_bytes <= gpu.l2_bytes or not held:
        return grid.least_bytes + out
    reads = wave_reads(order_named(rung.order), grid, gpu.sms * held // (down * across))
    return sum(wave.bytes for wave in reads) + out


def newest(
    lines: Iterable[Measurement], rung: KernelRung, problem: Problem, gpu: Gpu
) -> Measurement | None:
    """The latest line of this rung's present code on this problem and GPU."""
    mine = _lines_of(lines, rung, problem, gpu)
    return max(mine, key=lambda line: line.taken, default=None)


def clock(
    lines: Iterable[Measurement], rung: KernelRung, problem: Problem, gpu: Gpu
) -> float | None:
    """The median of the SM clocks, in MHz, that the lines of this rung's present code on this
    problem and GPU read: NVML's reading of one of them is off by up to 5 %."""
    mine = _lines_of(lines, rung, problem, gpu)
    return median(clocks) if (clocks := [line.sm_mhz for line in mine if line.sm_mhz]) else None


def _lines_of(
    lines: Iterable[Measurement], rung: KernelRung, problem: Problem, gpu: Gpu
) -> list[Measurement]:
    here = hash_of(rung)
    return [
        line
        for line in lines
        if (line.name, line.source_hash) == (rung.name, here)
        and (line.m, line.n, line.k) == (problem.m, problem.n, problem.k)
        and (line.dtype, line.layout) == (problem.dtype.name, problem.layout)
        and gpu_reported(line.machine) == gpu
    ]
