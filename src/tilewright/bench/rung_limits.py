"""What one block of a rung costs by the emulator, its limits, and the time that was measured."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.bench.inputs import operands
from tilewright.bench.ladder import build_rung, rung_launch
from tilewright.bench.record import Measurement
from tilewright.bench.rung_code import hash_of
from tilewright.bench.rung_replay import SECTOR, Played, l1_clocks, played
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import InputError, UnsupportedError
from tilewright.gpus import Gpu, gpu_reported
from tilewright.ladder.hopper_rung import HopperRung
from tilewright.ladder.rungs import KERNEL, KernelRung
from tilewright.model.limiter import Counts, Limits, Run, limits
from tilewright.model.occupancy import blocks_per_sm
from tilewright.model.raster import Grid, order_named, wave_reads
from tilewright.problem import Problem

if TYPE_CHECKING:
    from tilewright.emulator.report import Report

_MMA = re.compile(r"mma\.sync\.aligned\.m(\d+)n(\d+)k(\d+)\.")
_HALF_RATE, _TWICE = ("tf32",), ("e4m3", "e5m2", "s8", "u8")
_FP32 = re.compile(r"(fma|mul|add|sub)\.(r[nzmp]\.)?(ftz\.)?(sat\.)?f32$")
STEPS = (4, 8)  # K steps of the two runs; even, since loops are unrolled in twos
UNROLLED = 16  # steps of one k that the compiler makes in one pass, where there are no tiles
WARPS_OF_A_STREAM = 8  # two for each scheduler


@dataclass(frozen=True)
class Limited:
    """A rung on a problem: its limits, how it is resident, and the newest time measured.

    `model` says where the time of all together is from: "machine code" or "queues".
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
    UnsupportedError for what the emulator does not model and for a Hopper rung.
    Cost: 0.1 s and a compilation; for kernels of FMAs a second more.
    """
    if why := rung.refusal(problem, gpu.shared_bytes_per_block, gpu.arch):
        raise InputError(why)
    if isinstance(rung, HopperRung):
        raise UnsupportedError(
            f"the model does not know the pipes of wgmma and TMA that {rung.name} lives by; take "
            "a rung of hgemm, tf32 or simt."
        )
    low, high = depths(rung)
    few, many = (one_block(rung, problem, gpu, steps) for steps in (low, high))
    steps = problem.k // rung.tile.bk
    used = build_rung(rung, problem, gpu.arch).resources[KERNEL]
    shared = used.static_shared_bytes + rung.shared_bytes(problem.dtype)
    held = blocks_per_sm(gpu, rung.threads, used.registers, shared).blocks
    dram_bytes = _dram_bytes(rung, problem, gpu, held)
    run = Run(rung.tiles(problem), held, steps, rung.buffers, dram_bytes, streams(rung))
    first, second = counts_of(few), counts_of(many)
    counts = scaled(first, second, steps, (low, high))
    l2_share = _l2_share(rung, problem, counts)
    counts = replace(counts, load_bytes=counts.load_bytes * l2_share)
    a_step = (second.fma_issues - first.fma_issues) / (high - low)
    code = _code(rung, problem, gpu, many, a_step, l2_share)
    clocks = None
    if code is not None:
        counts = replace(counts, instructions=code.instructions * steps)
        clocks = code.clocks
    found = limits(counts, run, gpu, clocks)
    model = "machine code" if code is not None else "queues"
    return Limited(rung, problem, gpu, found, run, newest(lines, rung, problem, gpu), model)


def _code(
    rung: KernelRung,
    problem: Problem,
    gpu: Gpu,
    report: Report,
    fma_issues: float,
    l2_share: float,
) -> Played | None:
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
    """The report of one block's tile of C, over so many steps of K."""
    small = Problem(rung.tile.bm, rung.tile.bn, rung.tile.bk * steps, problem.dtype)
    engine = EmulatorEngine(gpu)
    a, b = map(engine.upload, operands(small, "zeros", 0))
    c = engine.empty((small.m, small.n), problem.dtype.numpy())
    artifact = build_rung(rung, small, gpu.arch)
    return engine.launch(rung_launch(rung, artifact, small, (a, b, c), gpu.sms))


def counts_of(report: Report) -> Counts:
    """Of the whole launch."""
    issued, totals = report.instructions, report.totals
    products = {opcode: match for opcode in issued if (match := _MMA.match(opcode))}
    flops = sum(
        issued[opcode] * 2 * int(match[1]) * int(match[2]) * int(match[3])
        for opcode, match in products.items()
    )
    fma = sum(count for opcode, count in issued.items() if _FP32.fullmatch(opcode))
    return Counts(
        flops,
        fma,
        totals["shared_wavefronts"],
        totals["instructions"],
        totals["global_sectors_load"] * SECTOR,
        totals["global_sectors_store"] * SECTOR,
        _scale(products),
        sum(l1_clocks(each) for each in report.accesses if each.opcode.startswith("ld.global")),
    )


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

    return Counts(
        at(few.mma_flops, many.mma_flops),
        at(few.fma_issues, many.fma_issues),
        at(few.shared_wavefronts, many.shared_wavefronts),
        at(few.instructions, many.instructions),
        at(few.load_bytes, many.load_bytes),
        at(few.store_bytes, many.store_bytes),
        many.mma_scale,
        at(few.l1_clocks, many.l1_clocks),
    )


def _dram_bytes(rung: KernelRung, problem: Problem, gpu: Gpu, held: int) -> int:
    """C once, and A and B once where they fit the L2 cache, else once for each wave."""
    tile, e = rung.tile, problem.dtype.bytes
    grid = Grid(problem.m, problem.n, problem.k, tile.bm, tile.bn, e)
    out = problem.m * problem.n * e
    if grid.least_bytes <= gpu.l2_bytes or not held:
        return grid.least_bytes + out
    reads = wave_reads(order_named(rung.order), grid, gpu.sms * held)
    return sum(wave.bytes for wave in reads) + out


def newest(
    lines: Iterable[Measurement], rung: KernelRung, problem: Problem, gpu: Gpu
) -> Measurement | None:
    """The latest line of this rung's present code on this problem and GPU."""
    here = hash_of(rung)
    mine = [
        line
        for line in lines
        if (line.name, line.source_hash) == (rung.name, here)
        and (line.m, line.n, line.k) == (problem.m, problem.n, problem.k)
        and (line.dtype, line.layout) == (problem.dtype.name, problem.layout)
        and gpu_reported(line.machine) == gpu
    ]
    return max(mine, key=lambda line: line.taken, default=None)
