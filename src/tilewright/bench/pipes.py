"""What the pipes of a multiprocessor do, measured: rates and latencies behind model.rates.

Every figure is a measurement line of the protocol that measures kernels. Its name begins with
"pipe: ", and its k is how many of a thing one multiprocessor did in one run, so that us × sm_mhz
÷ k are the clocks that each took: for a latency the loads (or multiply-adds) of a chain, for a
rate the bytes, wavefronts, requests or multiply-adds of all threads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.bench import record, telemetry
from tilewright.bench.includes import code_of
from tilewright.bench.protocol import Candidate, Settings, Timing, measure
from tilewright.bench.survey import probe_launch, probe_text
from tilewright.errors import InputError
from tilewright.launch import Param, Record
from tilewright.model.rates import A_CLOCK, Rate
from tilewright.tensormap import TensorMap

if TYPE_CHECKING:
    import numpy.typing as npt

    from tilewright.engines.base import Buffer, Engine
    from tilewright.engines.gpu import GpuEngine
    from tilewright.launch import Launch

_KIB, _MIB = 1024, 1024 * 1024
_TILES_BYTES = 16 * _MIB  # that l2_tile walks over: the L2 of any GPU it is for holds them
_WARP = 32
_HOPPER = "sm_90"  # whose TMA and wgmma the probes of both need
_WGMMA_ARCH = "sm_90a"
_ROW_BYTES = 128  # of a box: 64 elements of 16 bits
_BOX_ROWS = 64  # at most, in the probes of TMA
_SLOTS = 4  # of the ring in wgmma_step.cu
_SHARED_READS = 2 * _MIB  # that the tiles of wgmma_step walk over
_MAP = Record("PROBE_MAP", map="map")
_FMA_REPEAT = 256  # multiply-adds a thread and step: REPEAT x ROWS x COLUMNS in fma.cu
_CHASE_REPEAT = 32  # loads a chain and step: REPEAT in chase.cu
_SETTINGS = Settings(rounds=7, round_us=10_000.0, warmup_us=20_000.0, lead_in_us=10_000.0)


@dataclass(frozen=True)
class Pipe:
    """One probe, how it is launched, and what it counts.

    A step makes `each` of `unit` in a multiprocessor; a `latency` is one of a chain. `reads` are
    the bytes of its input, of which every 32-bit word holds its own offset.
    """

    name: str
    probe: str
    defines: tuple[tuple[str, int], ...]
    threads: int
    blocks_per_sm: int
    steps: int
    each: int
    unit: str
    reads: int
    latency: bool = False

    @property
    def inputs(self) -> str:
        """What the input holds: 1.0 for what FMAs multiply, zeros for wgmma, which else would run
        into the power cap."""
        return {"fma": "ones", "wgmma_step": "zeros"}.get(
            self.probe, "words that hold their own offset"
        )

    @property
    def by_tma(self) -> bool:
        return self.probe in ("tma_tile", "wgmma_step")

    def words(self) -> npt.NDArray[np.uint32]:
        """The input, 32 bits each."""
        if self.inputs == "ones":
            return np.ones(self.reads // 4, np.float32).view(np.uint32)
        if self.inputs == "zeros":
            return np.zeros(self.reads // 4, np.uint32)
        return np.arange(0, self.reads, 4, dtype=np.uint32)


@dataclass(frozen=True)
class Figure:
    """What a line says: `clocks` for each of `unit`, and how many a clock."""

    line: record.Measurement
    clocks: float

    @property
    def a_clock(self) -> float:
        return 1 / self.clocks


def figure(line: record.Measurement) -> Figure:
    """Raises: InputError for a line of another kind, or without a clock."""
    if not line.name.startswith(record.PIPE):
        raise InputError(f"{line.name!r} is no pipe; its name must begin with {record.PIPE!r}.")
    if not line.sm_mhz:
        raise InputError(f"{line.name!r} has no sm_mhz, so its clocks are not known.")
    return Figure(line, line.us * line.sm_mhz / line.k)


def measured(rate: Rate, lines: Iterable[record.Measurement]) -> float | None:
    """The value that the newest lines of a rate's pipes give, in its unit; None without them.

    `lines` are of one GPU. Raises: InputError for bytes a clock of two pipes that are no tiles of
    one block.
    """
    newest: dict[str, record.Measurement] = {}
    for line in sorted(lines, key=lambda line: line.taken):
        name = line.name.removeprefix(record.PIPE)
        if name != line.name and line.sm_mhz:
            newest[name] = line
    if not rate.pipes or not newest.keys() >= set(rate.pipes):
        return None
    clocks = [figure(newest[name]).clocks for name in rate.pipes]
    if len(clocks) > 1 and rate.unit != A_CLOCK:
        return clocks[1] - clocks[0]
    if len(clocks) > 1:
        small, large = (_tile_bytes(name) for name in rate.pipes)
        return (large - small) / (clocks[1] - clocks[0])
    return 1 / clocks[0] if rate.unit == A_CLOCK else clocks[0]


def _tile_bytes(name: str) -> int:
    match = re.search(r"(\d+) KiB, 1 block$", name)
    if match is None:  # of several, a line's clocks are those in which each copies a tile
        raise InputError(f"{name!r} must say how many KiB the tile of its 1 block has.")
    return int(match[1]) * _KIB


# --- The pipes ----------------------------------------------------------------------------


def _fma(name: str, rows: int, columns: int, threads: int, blocks: int, steps: int) -> Pipe:
    latency = rows * columns == 1
    each = _FMA_REPEAT if latency else _FMA_REPEAT * threads * blocks
    unit = "multiply-adds in a chain" if latency else "multiply-adds of a multiprocessor"
    defines = (("ROWS", rows), ("COLUMNS", columns))
    reads = 4 * (rows + columns) * threads
    return Pipe(name, "fma", defines, threads, blocks, steps, each, unit, reads, latency)


def _chase(name: str, shared: int, width: int, stride: int, chains: int, threads: int) -> Pipe:
    """One warp and chain for a latency, else two blocks a multiprocessor."""
    latency = threads == _WARP and chains == 1
    defines = (("SHARED", shared), ("WIDTH", width), ("STRIDE", stride), ("CHAINS", chains))
    reads = max(chains * threads * stride, 4 * chains * threads)
    if latency:
        unit, each = "loads in a chain", _CHASE_REPEAT
        return Pipe(name, "chase", defines, threads, 1, 2000, each, unit, reads, latency)
    wavefronts = max(1, width * _WARP // 128) if shared else 1
    unit = "wavefronts of a multiprocessor" if shared else "requests of a multiprocessor"
    each = 2 * threads // _WARP * chains * _CHASE_REPEAT * wavefronts
    return Pipe(name, "chase", defines, threads, 2, 500, each, unit, reads)


def _l2_read(mib: int, threads: int, blocks: int, unroll: int) -> Pipe:
    defines = (("UNROLL", unroll),)
    each = blocks * threads * unroll * 16
    steps = max(1, 40 * _MIB // each)
    unit = "bytes of a multiprocessor"
    name = f"L2 read {mib} MiB"
    return Pipe(name, "l2_read", defines, threads, blocks, steps, each, unit, mib * _MIB)


def _l2_tile(size: int, threads: int, blocks: int) -> Pipe:
    """A warp's 512 bytes are the latency; larger tiles show the burst that follows it."""
    words = f"{size} bytes" if size < _KIB else f"{size // _KIB} KiB"
    name = f"L2 tile of {words}, {blocks} block{'s' * (blocks > 1)}"
    defines, unit = (("BYTES", size),), "tiles of a block, one after the other"
    return Pipe(name, "l2_tile", defines, threads, blocks, 2000, 1, unit, _TILES_BYTES, True)


def _tma_tile(size: int) -> Pipe:
    """One box of 1 KiB is the latency; larger tiles show the burst that follows it."""
    unit, defines = "tiles of a block, one after the other", (("BYTES", size),)
    name = f"TMA tile of {size // _KIB} KiB, 1 block"
    return Pipe(name, "tma_tile", defines, _WARP, 1, 2000, 1, unit, _TILES_BYTES, True)


def _wgmma_step(columns: int, what: str = "", fill: int = 0, turns: int = 0) -> Pipe:
    defines = (
        ("COLUMNS", columns), ("FILL", fill), ("TURNS", turns),
        ("SMEM_BYTES", _SLOTS * (128 + columns) * _ROW_BYTES + _KIB),
    )  # fmt: skip
    name, unit = f"wgmma step of 128x{columns}x64{what}", "K steps of a block"
    return Pipe(name, "wgmma_step", defines, 384, 1, 4000, 1, unit, _SHARED_READS, True)


def _store(name: str, rows: int) -> Pipe:
    """64 stores a thread of a block of 256, each SM to a tile of 64 KiB."""
    unit = "requests of a multiprocessor"
    defines = (("ROWS", rows),)
    return Pipe(name, "store", defines, 256, 1, 500, 64 * 256 // _WARP, unit, _TILES_BYTES)


PIPES: tuple[Pipe, ...] = (
    _fma("FMA latency", 1, 1, _WARP, 1, 1000),
    _fma("FMA rate, 8x8 a thread", 8, 8, 256, 2, 2000),
    _fma("FMA rate, 8x16 a thread", 8, 16, 256, 1, 4000),
    _chase("shared load latency, 4 bytes", 1, 4, 4, 1, _WARP),
    _chase("shared load latency, 16 bytes", 1, 16, 16, 1, _WARP),
    _chase("shared load rate, 4 bytes", 1, 4, 4, 4, 256),
    _chase("shared load rate, 16 bytes", 1, 16, 16, 4, 256),
    _chase("L1 load latency", 0, 4, 4, 1, _WARP),
    _chase("L1 load rate, 1 word", 0, 4, 0, 4, 256),
    _chase("L1 load rate, 1 line", 0, 4, 4, 4, 256),
    _chase("L1 load rate, 32 lines", 0, 4, 128, 1, 256),
    *(
        _l2_read(mib, threads, blocks, unroll)
        for mib in (4, 8, 16, 32)
        for threads, blocks, unroll in ((256, 4, 4), (512, 2, 8), (512, 4, 4), (1024, 2, 4))
    ),
    *(
        _l2_tile(size, threads, blocks)
        for size, threads in ((512, _WARP), (4 * _KIB, 256), (16 * _KIB, 256))
        for blocks in (1, 2)
    ),
    *map(_tma_tile, (_KIB, 16 * _KIB, 32 * _KIB)),
    _wgmma_step(128),
    _wgmma_step(128, ", tiles arriving", fill=1),
    _wgmma_step(128, ", in turns", turns=1),
    _wgmma_step(256),
    _wgmma_step(256, ", tiles arriving", fill=1),
    _store("store rate, 1 row of 128 bytes", 1),
    _store("store rate, 8 rows of 16 bytes", 8),
)


# --- Measuring ----------------------------------------------------------------------------


def pipe_launch(engine: Engine, pipe: Pipe, words: Buffer, out: Buffer, steps: int) -> Launch:
    """`out` takes a 32-bit word of each thread of `blocks_per_sm` blocks a multiprocessor."""
    first: Param = words.address.to_bytes(8, "little")
    params = [first, out.address.to_bytes(8, "little")]
    if pipe.by_tma:
        params[0] = _MAP.pack(map=_boxes(pipe, words))
        params.append((pipe.reads // _ROW_BYTES).to_bytes(4, "little"))
    elif pipe.probe.startswith("l2"):
        params.append((pipe.reads // 16).to_bytes(4, "little"))
    params.append(steps.to_bytes(4, "little"))
    defines = tuple(
        (name, str(value)) for name, value in (("THREADS", pipe.threads), *pipe.defines)
    )
    grid = out.shape[0] // pipe.threads
    shared = dict(pipe.defines).get("SMEM_BYTES", 0)
    arch = _WGMMA_ARCH if pipe.by_tma else None
    return probe_launch(
        engine, pipe.probe, grid, pipe.threads, tuple(params), defines, shared, arch
    )


def _boxes(pipe: Pipe, words: Buffer) -> TensorMap:
    """The input as rows of 64 bf16, in boxes of at most 64 rows, swizzled as wgmma wants them."""
    rows = min(dict(pipe.defines).get("BYTES", _BOX_ROWS * _ROW_BYTES) // _ROW_BYTES, _BOX_ROWS)
    columns = _ROW_BYTES // 2
    shape = (columns, pipe.reads // _ROW_BYTES)
    return TensorMap("bf16", words.address, shape, (_ROW_BYTES,), (columns, rows), swizzle="128B")


def pipes_of(arch: str) -> tuple[Pipe, ...]:
    """Those that a GPU of this architecture has."""
    return tuple(pipe for pipe in PIPES if arch == _HOPPER or not pipe.by_tma)


def measure_pipes(engine: GpuEngine) -> list[record.Measurement]:
    """One line for each name in PIPES that this GPU has; of several launches of one name, that of
    the best.

    Raises: EngineError when the GPU fails.
    Cost: about 15 s and 200 MiB of GPU memory.
    """
    meter = telemetry.Meter(engine.uuid)
    chosen = pipes_of(engine.arch)
    candidates = []
    for number, pipe in enumerate(chosen):
        words = engine.upload(pipe.words())
        out = engine.empty((engine.sms * pipe.blocks_per_sm * pipe.threads,), np.dtype(np.uint32))
        launch = pipe_launch(engine, pipe, words, out, pipe.steps)

        def enqueue(run: int, launch: Launch = launch, held: object = (words, out)) -> None:
            engine.launch(launch)

        candidates.append(Candidate(f"{number} {pipe.name}", enqueue))
    taken = record.now()
    timings = measure(candidates, engine, _SETTINGS, meter.read)
    best: dict[str, tuple[Pipe, Timing]] = {}
    for pipe, timing in zip(chosen, timings, strict=True):
        there = best.get(pipe.name)
        if there is None or _each(pipe, timing) < _each(*there):
            best[pipe.name] = (pipe, timing)
    return [_line(engine, taken, pipe, timing) for pipe, timing in best.values()]


def _each(pipe: Pipe, timing: Timing) -> float:
    return timing.us / (pipe.each * pipe.steps)


def _line(engine: GpuEngine, taken: str, pipe: Pipe, timing: Timing) -> record.Measurement:
    reading = telemetry.typical(timing.readings)
    tried = sum(other.name == pipe.name for other in PIPES)
    best = f"best of {tried} launches: " if tried > 1 else ""
    blocks = f"{pipe.blocks_per_sm} blocks of {pipe.threads} threads a multiprocessor"
    macros = ", ".join(f"{name}={value}" for name, value in pipe.defines)
    return record.Measurement(
        taken=taken,
        name=f"{record.PIPE}{pipe.name}",
        source_hash=record.source_hash(code_of(probe_text(pipe.probe))),
        m=1,
        n=1,
        k=pipe.each * pipe.steps,
        layout="nn",
        dtype="fp32",
        inputs=pipe.inputs,
        seed=0,
        us=timing.us,
        us_samples=timing.us_samples,
        rival=None,
        rival_version=None,
        rival_us=None,
        rival_us_samples=None,
        ratio=None,
        correct=None,
        rel_error=None,
        method=f"{timing.method}; {best}{blocks}, {macros}; k counts {pipe.unit} in one run",
        gpu=engine.gpu_name,
        driver=engine.driver,
        cuda=engine.cuda,
        sm_mhz=reading.sm_mhz,
        power_w=reading.power_w,
        temperature_c=reading.temperature_c,
        host=record.host(),
    )


def table(lines: Sequence[record.Measurement]) -> list[dict[str, object]]:
    """Rows of `tilewright pipes`: name, unit's clocks, how many a clock, and the line's clock."""
    rows: list[dict[str, object]] = []
    for line in lines:
        found = figure(line) if line.sm_mhz else None
        rows.append(
            {
                "name": line.name.removeprefix(record.PIPE),
                "gpu": line.gpu,
                "us": line.us,
                "sm_mhz": line.sm_mhz,
                "count": line.k,
                "clocks": found and found.clocks,
                "per_clock": found and found.a_clock,
            }
        )
    return rows
