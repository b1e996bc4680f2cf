"""The sticking points of the roadmap and of learners: right answers, and how anyone can check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.gpus import gpu_named
from tilewright.model.access import access_named
from tilewright.model.intensity import tile_intensity
from tilewright.model.lanes import SOURCE_PITCH, Place, addresses, places, strided, swizzle_of
from tilewright.model.occupancy import blocks_per_sm
from tilewright.model.pipeline import timeline
from tilewright.model.raster import Grid
from tilewright.model.roofline import Roof, gemm_bytes, gemm_flops, peak_tflops
from tilewright.model.tile import Tile
from tilewright.model.waves import waves

Figure = tuple[str, str]


@dataclass(frozen=True)
class Myth:
    """`figures` are worked out when asked for; `commands` run anywhere, `on_gpu` needs one.

    `profiler` holds metrics of Nsight Compute and what to look for in each.
    """

    name: str
    question: str
    answer: str
    figures: Callable[[], list[Figure]]
    commands: tuple[str, ...]
    on_gpu: str
    profiler: tuple[tuple[str, str], ...]


def _occupancy() -> list[Figure]:
    gpu = gpu_named("h200")
    rows = []
    for tm in (2, 4, 8):
        tile = Tile(64, 64, 8, tm, tm, 4)
        held = blocks_per_sm(gpu, tile.threads, tile.registers_estimate, tile.bytes)
        share = held.blocks * tile.threads / gpu.threads_per_sm
        rows.append(
            (
                f"{tm}×{tm} a thread",
                f"{tile.register_intensity:.2g} FLOP per byte of shared memory, occupancy "
                f"{share:.0%}",
            )
        )
    return rows


def _shared_memory() -> list[Figure]:
    kind = access_named("ldmatrix.x4")
    rows = []
    for name, pitch, swizzle in (
        ("A of hgemm_naive", 64, "0"),
        ("A of hgemm_bcf", 64, "(row>>1)&3"),
        ("B of hgemm_naive", 256, "0"),
        ("B of hgemm_bcf", 256, "row&7"),
    ):
        where = places(kind, 1)
        cost = kind.cost(addresses(where, pitch, 16, swizzle_of(swizzle)))
        rows.append((name, f"{cost.wavefronts} wavefronts for {cost.wavefronts_ideal} of data"))
    return rows


def _bigger_tiles() -> list[Figure]:
    gpu = gpu_named("h200")
    rows = []
    for side in (64, 128, 256):
        tiles = Grid(1024, 1024, 4096, side, side, 2).tiles
        found = waves(tiles[0] * tiles[1], gpu.sms, 1)
        busy = min(found.blocks / gpu.sms, 1)
        rows.append(
            (
                f"{side}×{side}",
                f"{tile_intensity(side, side, 2):.0f} FLOP/B and {side * side // 256} KiB of sums, "
                f"but C of 1024×1024 is {found.blocks} tiles: {busy:.0%} of {gpu.sms} SMs have one",
            )
        )
    return rows


def _double_buffer() -> list[Figure]:
    rows = []
    for load, compute in ((500, 1000), (50, 1000), (3000, 1000)):
        single, double = (timeline(n, load, compute, 128).total for n in (1, 2))
        faster = f"{single / double:.2f} times as fast, for twice the shared memory"
        rows.append((f"load {load}, compute {compute}", faster))
    gpu = gpu_named("rtx5060")
    held = [blocks_per_sm(gpu, 256, 126, n * 32768).blocks for n in (1, 2)]
    rows.append(
        (
            "BK=64 on an RTX 5060",
            f"{held[0]} blocks an SM with one buffer of 32 KiB, {held[1]} with two",
        )
    )
    return rows


def _cublas() -> list[Figure]:
    gpu = gpu_named("h200")
    roof = Roof(peak_tflops(gpu, "bf16"), gpu.memory_gbps)
    rows = []
    for m, n, k in ((4096, 4096, 4096), (4096, 4096, 512), (128, 4096, 4096)):
        least, flops = gemm_bytes(m, n, k, 2), gemm_flops(m, n, k)
        floor = flops / roof.attainable(flops / least) / 1e6
        rows.append(
            (f"{m}×{n}×{k}", f"cannot take less than {floor:.1f} µs, by {_by(roof, flops / least)}")
        )
    m, n = 8192, 14336
    extra = 2 * 2 * m * n / gpu.memory_gbps / 1e3
    rows.append(
        (f"bias + GELU on {m}×{n}", f"as a kernel of its own moves C twice: {extra:.0f} µs")
    )
    return rows


def _by(roof: Roof, intensity: float) -> str:
    return "DRAM" if roof.bound(intensity) == "memory" else "arithmetic"


def _float4() -> list[Figure]:
    kind = access_named("ld.16")
    rows = []
    for stride in (1, 2, 8):
        cost = kind.cost(strided(kind, stride))
        conflicts = cost.wavefronts - cost.wavefronts_ideal
        rows.append(
            (f"float4 at stride {stride}", f"{cost.wavefronts} wavefronts, {conflicts} conflicts")
        )
    return rows


def _padding() -> list[Figure]:
    kind = access_named("ld.4")
    rows = []
    for name, across, pitches in (
        ("column of [32][p]", 1, (32, 33)),
        ("rows of [16][p]", 16, (16, 17)),
        ("one row of [8][p]", 32, (128, 133)),
    ):
        costs = [
            kind.cost(addresses(_within(places(kind, across), across), 4 * p, 4, None)).wavefronts
            for p in pitches
        ]
        rows.append(
            (name, f"pitch {pitches[0]}: {costs[0]}, pitch {pitches[1]}: {costs[1]} wavefronts")
        )
    return rows


def _within(where: list[Place], across: int) -> list[Place]:
    """Lanes of a whole row read every 8th float of it, as a register tile of 8 columns does."""
    if across < 32:
        return where
    return [Place(place.lane, 0, place.lane % 16 * 32) for place in where]


def _cp_async() -> list[Figure]:
    kind = access_named("cp.async.cg")
    rows = []
    for pitch, swizzle in ((64, "0"), (64, "(row>>1)&3"), (128, "row&7")):
        where = places(kind, pitch // 16)
        shared = addresses(where, pitch, 16, swizzle_of(swizzle))
        source = [place.row * SOURCE_PITCH + place.column for place in where]
        cost = kind.cost(shared, source)
        what = "as it lies" if swizzle == "0" else f"chunk ^ ({swizzle})"
        rows.append(
            (
                f"rows of {pitch} bytes, {what}",
                f"{cost.wavefronts} wavefronts, {cost.wavefronts_ideal} ideal",
            )
        )
    return rows


_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"

MYTHS: tuple[Myth, ...] = (
    Myth(
        "occupancy",
        "Is higher occupancy always better?",
        "No. A GEMM spends registers on a larger tile a thread, which reads fewer bytes for each "
        "operation. Occupancy hides latency; where independent instructions hide it, few warps "
        "are enough: hgemm_bcf_dbf_rw runs at 25 %.",
        _occupancy,
        ("tilewright explain tile --bm 64 --bn 64 --tm 2 --tn 2",
         "tilewright explain limiter hgemm_bcf_dbf_rw"),
        "tilewright ladder --rung hgemm_naive --rung hgemm_bcf_dbf_rw",
        (("sm__warps_active.avg.pct_of_peak_sustained_active", "achieved occupancy: low is fine"),
         ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "what the SMs get done"),
         ("smsp__warps_eligible.avg.per_cycle_active", "at least one warp ready a clock?"),
         (_STALL.format("long_scoreboard"), "warps that wait for global memory")),
    ),
    Myth(
        "shared",
        "Is shared memory always faster?",
        "Only without bank conflicts: 8 rows that begin in the same bank are read one after the "
        "other. The swizzle of hgemm_bcf changes nothing but where chunks lie.",
        _shared_memory,
        ("tilewright ladder --engine emulator --rung hgemm_naive --rung hgemm_bcf",
         "tilewright explain limiter hgemm_naive"),
        "tilewright ladder --rung hgemm_naive --rung hgemm_bcf",
        (("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "wavefronts of loads"),
         ("memory_l1_wavefronts_shared_ideal", "the same without conflicts, by source line"),
         ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
          "conflicts, and waiting for other warps too"),
         (_STALL.format("mio_throttle"), "warps that wait to reach shared memory")),
    ),
    Myth(
        "bigger",
        "Is a bigger BM and BN always better?",
        "Intensity grows, but so do shared memory and registers, and there are fewer blocks: a "
        "small C leaves SMs idle. Measure a few shapes; no formula decides alone.",
        _bigger_tiles,
        ("tilewright explain waves -m 1024 -n 1024",
         "tilewright explain limiter hgemm_bcf_dbf_rw -m 1024 -n 1024"),
        "tilewright bench --shape 1024x1024x4096 --rung hgemm_bcf_dbf_rw",
        (("launch__waves_per_multiprocessor", "below 1 some SMs have nothing to do"),
         ("launch__occupancy_limit_registers", "blocks that the registers allow"),
         ("launch__occupancy_limit_shared_mem", "blocks that shared memory allows")),
    ),
    Myth(
        "double-buffer",
        "Does double buffering always pay?",
        "It hides a load that nothing else hides. Where other resident blocks already fill the "
        "wait, or loads are short, little is left to win, and twice the shared memory may cost a "
        "resident block.",
        _double_buffer,
        ("tilewright explain pipeline --load 558 --compute 1150 --tiles 8",
         "tilewright explain limiter hgemm"),
        "tilewright ladder --rung hgemm_bcf --rung hgemm_bcf_dbf",
        ((_STALL.format("long_scoreboard"), "waiting for loads: does it fall?"),
         (_STALL.format("barrier"), "waiting at __syncthreads: one a step instead of two"),
         ("gpu__time_duration.sum", "the only figure that decides")),
    ),
    Myth(
        "cublas",
        "Can hand-written code beat cuBLAS?",
        "For a shape of its own or a fused epilogue, yes; a general GEMM hardly in the long run. "
        "Compare the same type, layout and inputs, warmed up, interleaved, against the floor.",
        _cublas,
        ("tilewright explain roofline -m 4096 -n 4096 -k 512",
         "tilewright explain limiter hgemm_bcf_dbf_rw -m 4096 -n 4096 -k 512"),
        "tilewright bench --shape 4096x4096x512 --noise",
        (("gpu__time_duration.sum", "with --clock-control none and --cache-control none"),
         ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
          "how busy either keeps the Tensor Cores"),
         ("dram__bytes_read.sum", "against the bytes of A and B")),
    ),
    Myth(
        "float4",
        "Are consecutive float4 a 4-way conflict?",
        "No. A warp's 512 bytes need 4 wavefronts of 128 bytes at best: each serves 8 lanes. A "
        "conflict is what exceeds that.",
        _float4,
        ("tilewright explain banks --access ld.16",
         "tilewright explain banks --access ld.16 --stride 2"),
        "tilewright ladder --rung hgemm_bcf_dbf_rw",
        (("memory_l1_wavefronts_shared", "wavefronts by source line"),
         ("memory_l1_wavefronts_shared_ideal", "4 for each request of 16 bytes a lane")),
    ),
    Myth(
        "padding",
        "Does padding a row always remove conflicts?",
        "Only where the lanes of a wavefront lie in different rows. Lanes of one row keep their "
        "banks whatever the pitch, and where rows fit together padding creates conflicts.",
        _padding,
        ("tilewright explain banks --pitch 33 --column",
         "tilewright explain banks --pitch 17 --lanes-per-row 16"),
        "tilewright ladder --rung hgemm_bcf",
        (("memory_l1_wavefronts_shared", "before and after, by source line"),
         ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "in all")),
    ),
    Myth(
        "cp-async",
        "Does a swizzle make cp.async replay?",
        "No: rows of 64 bytes do, swizzled or not, for two of them share a line of shared memory "
        "but not of global memory. Rows of 128 bytes reach the ideal, swizzled or not.",
        _cp_async,
        ("tilewright explain banks --access cp.async.cg --pitch 64",
         'tilewright explain banks --access cp.async.cg --pitch 128 --swizzle "row&7"'),
        "tilewright ladder --rung hgemm_naive --rung hgemm_bcf",
        (("memory_l1_wavefronts_shared", "of the LDGSTS line; the _op_ counters miss it"),
         ("memory_l2_theoretical_sectors_global", "sectors of the same line")),
    ),
)  # fmt: skip
