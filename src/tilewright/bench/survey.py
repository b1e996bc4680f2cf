"""The probes on a GPU: how each roof is measured.

Every figure comes from the protocol that measures the candidates and becomes a measurement line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from tilewright.bench import record, telemetry
from tilewright.bench.contest import Conditions, enter_peer, hold, set_up
from tilewright.bench.includes import code_of
from tilewright.bench.protocol import (
    Candidate,
    Settings,
    Timing,
    input_sets,
    measure,
)
from tilewright.bench.roofs import COPY, EMPTY, LIBRARY, MIB, RATE, READ, Roofs, from_lines
from tilewright.build import Source, build
from tilewright.errors import EngineError, InputError
from tilewright.launch import Launch, Param
from tilewright.problem import Problem

if TYPE_CHECKING:
    import numpy.typing as npt

    from tilewright.bench.peers import Peer
    from tilewright.dtypes import DType
    from tilewright.engines.base import Buffer, Engine
    from tilewright.engines.gpu import GpuEngine

READ_MIB = (2, 8, 32, 64, 112, 224, 448)
_COPY_MIB = 224
_MEMORY_SHARE = 0.4  # of the free memory, for what is read; a copy writes as much again
_CHUNK = 16  # bytes a thread moves at once

MMA = (16, 8, 16)  # m, n, k of one instruction
MMA_THREADS = 256
_MMA_BLOCKS_PER_SM = 2
_MMA_WORDS = 24  # of operands a thread: WORDS in mma.cu
_MMA_PER_STEP = 16  # instructions a warp: ROWS x COLUMNS in mma.cu
_MMA_STEPS = 2000

_LARGE = (8192, 4096, 8192, "nt")  # where libraries reach their best rate
_NO_SHAPE = "m, n, k do not apply"
# Short: neither memory nor an empty kernel runs into the power cap.
_BRIEF = Settings(rounds=7, round_us=3_000.0, warmup_us=3_000.0, lead_in_us=500.0)
_LONG = Settings(rounds=7, round_us=10_000.0, warmup_us=100_000.0, lead_in_us=50_000.0)


@dataclass(frozen=True)
class Shape:
    """How a memory probe is launched."""

    threads: int
    blocks_per_sm: int
    unroll: int

    def __str__(self) -> str:
        return (
            f"{self.blocks_per_sm} blocks of {self.threads} threads a multiprocessor, "
            f"{self.unroll} loads in flight each"
        )

    def defines(self) -> tuple[tuple[str, str], ...]:
        return (("THREADS", str(self.threads)), ("UNROLL", str(self.unroll)))


_SHAPES = (
    Shape(256, 4, 4),
    Shape(256, 8, 4),
    Shape(512, 2, 8),
    Shape(512, 4, 4),
    Shape(512, 4, 8),
    Shape(1024, 1, 4),
    Shape(1024, 2, 2),
    Shape(1024, 2, 4),
)


# --- Probes -------------------------------------------------------------------------------


def probe_text(name: str) -> str:
    """The source of a probe: "empty", "read", "copy" or "mma"."""
    file = resources.files("tilewright") / "bench" / "probes" / f"{name}.cu"
    return file.read_text(encoding="utf-8")


def probe_launch(
    engine: Engine,
    name: str,
    grid: int,
    threads: int,
    params: tuple[Param, ...],
    defines: tuple[tuple[str, str], ...] = (),
    shared_bytes: int = 0,
    arch: str | None = None,
) -> Launch:
    """The probe's launch on `grid` blocks, built for `arch` where the GPU's is not enough.

    Cost: a compilation, or a look into the cache.
    """
    artifact = build(Source(f"probes/{name}.cu", probe_text(name), defines), arch or engine.arch)
    return Launch(artifact, "probe", (grid, 1, 1), (threads, 1, 1), params, shared_bytes)


def memory_params(first: int, second: int, size_bytes: int) -> tuple[bytes, ...]:
    """Parameters of read (from, sink) and copy (from, to): addresses and the bytes to move."""
    return tuple(value.to_bytes(8, "little") for value in (first, second, size_bytes // _CHUNK))


def mma_flops(blocks: int, steps: int) -> int:
    """The operations of one run of the mma probe."""
    m, n, k = MMA
    return 2 * m * n * k * blocks * (MMA_THREADS // 32) * _MMA_PER_STEP * steps


def mma_operands(dtype: DType, seed: int = 0) -> npt.NDArray[np.uint32]:
    """Random normal operands for every thread of a block, as 32-bit words."""
    values = np.random.default_rng(seed).standard_normal(MMA_THREADS * _MMA_WORDS * 2, np.float32)
    return values.astype(dtype.numpy()).view(np.uint32)


def mma_launch(
    engine: Engine, dtype: DType, words: Buffer, out: Buffer, blocks: int, steps: int
) -> Launch:
    """The mma probe; `out` takes one fp32 a thread."""
    params = (
        words.address.to_bytes(8, "little"),
        out.address.to_bytes(8, "little"),
        steps.to_bytes(4, "little"),
    )
    defines = (("ELEMENT", dtype.name), ("THREADS", str(MMA_THREADS)))
    return probe_launch(engine, "mma", blocks, MMA_THREADS, params, defines)


# --- Measuring ----------------------------------------------------------------------------


def measure_roofs(engine: GpuEngine, dtype: DType, library: Peer | None = None) -> Roofs:
    """All roofs, for bf16 or fp16 matrices, each the best of a few launch shapes.

    Reads and copies move random bytes, walking over twice the L2 cache. `library` is the peer
    whose rate on a large product is a roof too.
    Raises: EngineError when the GPU fails; InputError for another dtype or too little memory.
    Cost: about 10 s and up to 900 MiB of GPU memory.
    """
    if dtype.name not in ("bf16", "fp16"):
        raise InputError(f"dtype={dtype.name} has no matrix rate here; use bf16 or fp16.")
    lines = _Survey(engine, dtype).lines()
    if library is not None:
        lines.append(_library_rate(engine, dtype, library, lines[0].taken))
    return from_lines(lines)


def _library_rate(engine: GpuEngine, dtype: DType, library: Peer, taken: str) -> record.Measurement:
    """The peer on one large product, checked and timed as in any contest."""
    m, n, k, layout = _LARGE
    arena = set_up(engine, Problem(m, n, k, dtype, layout), Conditions())
    peer = enter_peer(library, arena)
    (result,) = hold(arena, [peer], []).results
    if result.line is None:
        raise EngineError(f"{peer.name} is wrong at {m}×{n}×{k}: {result.verdict.message}")
    method = f"{peer.name} {peer.version}, {result.line.method}"
    return replace(result.line, name=LIBRARY, taken=taken, method=method)


class _Survey:
    """One run of all probes on one GPU; owns the memory that they move."""

    def __init__(self, engine: GpuEngine, dtype: DType) -> None:
        self._engine = engine
        self._dtype = dtype
        self._meter = telemetry.Meter(engine.uuid)
        self._taken = record.now()
        self._sms = engine.context.attribute("MULTIPROCESSOR_COUNT")
        limit = int(engine.free_bytes() * _MEMORY_SHARE)
        self._sizes = {
            mib: input_sets(mib * MIB, engine.l2_bytes, 1 << 62)
            for mib in READ_MIB
            if max(mib * MIB, 2 * engine.l2_bytes + mib * MIB) <= limit
        }
        if not self._sizes:
            raise InputError(f"{limit} bytes of free GPU memory are too few to measure roofs in.")
        held = max(mib * sets for mib, sets in self._sizes.items()) * MIB
        self._from = engine.upload(np.frombuffer(np.random.default_rng(0).bytes(held), np.uint8))
        self._to = engine.empty((held,), np.dtype(np.uint8))

    def lines(self) -> list[record.Measurement]:
        lines = [self._empty()]
        lines += [self._moved("read", READ, mib) for mib in self._sizes]
        lines.append(self._moved("copy", COPY, self._largest(_COPY_MIB)))
        return [*lines, self._rate()]  # last, for it warms the GPU

    def _timed(self, candidates: Sequence[Candidate], settings: Settings) -> list[Timing]:
        return measure(candidates, self._engine, settings, self._meter.read)

    def _largest(self, limit: int = READ_MIB[-1]) -> int:
        return max(mib for mib in self._sizes if mib <= max(limit, min(self._sizes)))

    def _empty(self) -> record.Measurement:
        launch = probe_launch(self._engine, "empty", 1, 32, ())
        candidate = Candidate(EMPTY, lambda run: self._engine.launch(launch))
        (timing,) = self._timed([candidate], _BRIEF)
        how = "one block of 32 threads"
        return self._line("empty", timing, (1, 1, 1), "no operands", how)

    def _moved(self, probe: str, name: str, mib: int) -> record.Measurement:
        sets = self._sizes[mib]
        candidates = [Candidate(str(it), self._memory(probe, mib, it)) for it in _SHAPES]
        settings = replace(_BRIEF, sets=sets)
        timing = min(self._timed(candidates, settings), key=lambda it: it.us)
        how = f"best of {len(_SHAPES)} launch shapes: {timing.name}"
        named = replace(timing, name=f"{name} {mib} MiB")
        return self._line(probe, named, (1, 1, 1), "random bytes", how)

    def _memory(self, probe: str, mib: int, shape: Shape) -> Callable[[int], None]:
        blocks, size = shape.blocks_per_sm * self._sms, mib * MIB
        launches = []
        for window in range(self._sizes[mib]):
            first = self._from.address + window * size
            second = self._to.address + (window * size if probe == "copy" else 0)
            params = memory_params(first, second, size)
            launches.append(
                probe_launch(self._engine, probe, blocks, shape.threads, params, shape.defines())
            )
        return lambda run: self._engine.launch(launches[run % len(launches)])

    def _rate(self) -> record.Measurement:
        engine, blocks = self._engine, _MMA_BLOCKS_PER_SM * self._sms
        words = engine.upload(mma_operands(self._dtype))
        out = engine.empty((blocks * MMA_THREADS,), np.dtype(np.float32))
        launch = mma_launch(engine, self._dtype, words, out, blocks, _MMA_STEPS)
        candidate = Candidate(RATE, lambda run: engine.launch(launch))
        (timing,) = self._timed([candidate], _LONG)
        m, n, k = MMA
        mnk = (m, n, mma_flops(blocks, _MMA_STEPS) // (2 * m * n))
        how = f"mma.sync m{m}n{n}k{k} from registers; k counts all instructions of one run"
        return self._line("mma", timing, mnk, "normal(0, 1)", how)

    def _line(
        self, probe: str, timing: Timing, mnk: tuple[int, int, int], inputs: str, how: str
    ) -> record.Measurement:
        reading = telemetry.typical(timing.readings)
        note = f"; {_NO_SHAPE}" if mnk == (1, 1, 1) else ""
        return record.Measurement(
            taken=self._taken,
            name=timing.name,
            source_hash=record.source_hash(code_of(probe_text(probe))),
            m=mnk[0],
            n=mnk[1],
            k=mnk[2],
            layout="nn",
            dtype=self._dtype.name,
            inputs=f"{inputs}{note}",
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
            method=f"{timing.method}; {how}{note}",
            gpu=self._engine.gpu_name,
            driver=self._engine.driver,
            cuda=self._engine.cuda,
            sm_mhz=reading.sm_mhz,
            power_w=reading.power_w,
            temperature_c=reading.temperature_c,
            host=record.host(),
        )
