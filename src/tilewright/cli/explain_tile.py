"""`tilewright explain tile`: what a tiling costs and gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilewright.cli.explain_draw import Drawing, bar, figures, heading, line
from tilewright.cli.explain_options import GpuName, K, M, N, check_range
from tilewright.cli.options import JsonTarget, MaybeWhole, Whole
from tilewright.cli.output import check_targets, emit
from tilewright.model.formats import format_named
from tilewright.model.occupancy import (
    REGISTERS_PER_THREAD,
    THREADS_PER_BLOCK,
    WARP,
    Occupancy,
    blocks_per_sm,
)
from tilewright.model.roofline import Roof, peak_tflops
from tilewright.model.tile import Tile, intensity_curve
from tilewright.model.waves import tiles, waves

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from tilewright.gpus import Gpu

_SIDES = (16, 32, 64, 128, 256)
_OPT_IN = 48 * 1024  # bytes of shared memory that a block gets without asking
MMA_DEPTH = {"tf32": 8, "bf16": 16, "fp16": 16, "e5m2": 32, "e4m3": 32}


def tile(
    *,
    bm: Whole = 128,
    bn: Whole = 128,
    bk: Whole = 8,
    tm: Whole = 8,
    tn: Whole = 8,
    dtype: str = "fp32",
    stages: Whole = 1,
    registers: MaybeWhole = None,
    gpu: GpuName = "h200",
    m: M = 4096,
    n: N = 4096,
    k: K = 4096,
    json: JsonTarget = None,
) -> int:
    """Show what a tiling costs and gives: bytes, intensity, threads, occupancy, waves.

    Example: tilewright explain tile --bm 128 --bn 256 --bk 32 --dtype bf16

    Parameters
    ----------
    bm
        Rows of C of a block.
    bn
        Columns of C of a block.
    bk
        Steps along K: the depth of the tiles of A and B in shared memory.
    tm
        Rows of C of a thread.
    tn
        Columns of C of a thread.
    dtype
        Type of A and B: fp32, tf32, bf16, fp16, e5m2 or e4m3; sums are fp32.
    stages
        Tiles of A and B in shared memory at a time.
    registers
        Registers of a thread, as the compiler says; estimated if not given.
    m
        Rows of C.
    n
        Columns of C.
    k
        Columns of A.
    """
    from tilewright.gpus import gpu_named

    check_targets(json)
    check_range(1 << 16, bm=bm, bn=bn, bk=bk, tm=tm, tn=tn, stages=stages)
    check_range(m=m, n=n, k=k)
    form = format_named(dtype)
    chip = gpu_named(gpu)
    plan = Tile(bm, bn, bk, tm, tn, form.bytes, stages)
    row = _row(plan, chip, form.name, registers, (m, n, k))
    emit("explain-tile", [row], _picture(plan, chip, row), json)
    return 0


def _residency(plan: Tile, gpu: Gpu, registers: int) -> Occupancy:
    if plan.threads > THREADS_PER_BLOCK:
        return Occupancy(0, "threads")
    return blocks_per_sm(gpu, plan.threads, registers, plan.shared_bytes)


def _row(
    plan: Tile, gpu: Gpu, dtype: str, registers: int | None, mnk: tuple[int, int, int]
) -> dict[str, Any]:
    m, n, k = mnk
    taken = plan.registers_estimate if registers is None else registers
    held = _residency(plan, gpu, taken)
    warps = held.blocks * -(-plan.threads // WARP)
    along_m, along_n = tiles(m, n, plan.bm, plan.bn)
    passes = waves(along_m * along_n, gpu.sms, held.blocks) if held.blocks else None
    roof = Roof(peak_tflops(gpu, dtype), gpu.memory_gbps)
    return {
        "gpu": gpu.name, "dtype": dtype, "m": m, "n": n, "k": k,
        "bm": plan.bm, "bn": plan.bn, "bk": plan.bk, "tm": plan.tm, "tn": plan.tn,
        "stages": plan.stages, "tile_bytes": plan.bytes, "shared_bytes": plan.shared_bytes,
        "flops_per_k_tile": plan.flops, "intensity": plan.intensity,
        "register_intensity": plan.register_intensity, "threads": plan.threads,
        "accumulators": plan.accumulators, "registers": taken,
        "registers_estimated": registers is None, "blocks_per_sm": held.blocks,
        "warps_per_sm": warps,
        "occupancy": warps / (gpu.threads_per_sm // WARP), "limiter": held.limiter,
        "tiles": along_m * along_n, "steps": -(-k // plan.bk),
        "notes": _notes(plan, gpu, dtype, taken),
        "blocks_per_wave": passes.per_wave if passes else None,
        "waves": passes.blocks / passes.per_wave if passes else None,
        "tail_blocks": passes.tail if passes else None,
        "wave_efficiency": passes.efficiency if passes else None,
        "peak_tflops": roof.tflops, "memory_gbps": roof.gbps, "machine_balance": roof.balance,
        "attainable_tflops": roof.attainable(plan.intensity),
        "bound": roof.bound(plan.intensity),
        "curve": [
            {"bm": bm, "bn": bn, "intensity": intensity}
            for bm, bn, intensity in intensity_curve(_SIDES, plan.element_bytes)
        ],
    }  # fmt: skip


def _notes(plan: Tile, gpu: Gpu, dtype: str, registers: int) -> list[str]:
    """What a kernel with this tiling has to mind."""
    notes = []
    if _OPT_IN < plan.shared_bytes <= gpu.shared_bytes_per_block:
        notes.append(f"more than {_OPT_IN} B of shared memory a block need the opt-in attribute")
    depth = MMA_DEPTH.get(dtype)
    if depth and plan.bk % depth:
        notes.append(f"bk={plan.bk} is no multiple of the {depth} that one mma of {dtype} takes")
    if plan.threads % WARP:
        notes.append(f"{plan.threads} threads leave lanes of the last warp idle")
    if plan.registers_estimate == REGISTERS_PER_THREAD:
        notes.append("so many accumulators will be spilled to memory")
    elif registers <= plan.accumulators:
        notes.append(
            f"{plan.accumulators} accumulators and addresses do not fit registers={registers}: the "
            "rest is spilled to memory"
        )
    return notes


def _picture(plan: Tile, gpu: Gpu, row: dict[str, Any]) -> RenderableType:
    def draw(width: int) -> Iterator[Text]:
        yield heading(
            f"A block's tile {plan.bm}×{plan.bn}×{plan.bk} of {row['dtype']}, "
            f"{plan.tm}×{plan.tn} a thread, on {gpu.title}"
        )
        yield from figures(_figures(plan, row), width)
        yield line("")
        yield from _grid(plan, row)
        yield line("")
        yield from _curve(plan, row, width)

    return Drawing(draw)


def _figures(plan: Tile, row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    e, bk, sides = plan.element_bytes, plan.bk, f"({plan.bm} + {plan.bn})"
    yield "A and B tiles", f"{e}·{bk}·{sides} = {plan.bytes} B"
    if plan.stages > 1:
        yield f"{plan.stages} stages", f"{plan.stages}·{plan.bytes} = {plan.shared_bytes} B"
    yield (
        "intensity",
        (
            f"2·{plan.bm}·{plan.bn}·{bk} FLOP ÷ {plan.bytes} B = {plan.intensity:.1f} FLOP/B "
            f"(BK cancels)"
        ),
    )
    yield "threads", f"({plan.bm} ÷ {plan.tm})·({plan.bn} ÷ {plan.tn}) = {plan.threads}"
    yield "accumulators", f"{plan.tm}·{plan.tn} = {plan.accumulators} a thread"
    about = "about " if row["registers_estimated"] else ""
    yield (
        "registers",
        f"{about}{row['registers']} a thread"
        + (" (a guess; --registers takes the compiler's figure)" if about else ""),
    )
    yield "resident", _resident(row)
    if row["waves"] is not None:
        yield "waves", _waves(row)
    yield (
        "steps along K",
        f"{row['steps']:,} of {bk}" + (f", the last of {row['k'] % bk}" if row["k"] % bk else ""),
    )
    yield (
        "machine balance",
        (
            f"{row['peak_tflops']:g} TFLOP/s ÷ {row['memory_gbps']:,} GB/s = "
            f"{row['machine_balance']:.1f} FLOP/B"
        ),
    )
    yield "so", _verdict(row)
    for note in row["notes"]:
        yield "note", note


_TOO_MUCH = {
    "threads": f"too many threads (a block has at most {THREADS_PER_BLOCK})",
    "registers": "too many registers",
    "shared memory": "too much shared memory",
}


def _resident(row: dict[str, Any]) -> str:
    if not row["blocks_per_sm"]:
        return f"none, it cannot be launched: {_TOO_MUCH[row['limiter']]}"
    blocks = row["blocks_per_sm"]
    return (
        f"{blocks} block{'s' * (blocks > 1)} = {row['warps_per_sm']} warps an SM, "
        f"{row['occupancy']:.0%}; limited by {row['limiter']}"
    )


def _waves(row: dict[str, Any]) -> str:
    tail = row["tail_blocks"]
    last = f"the last has {tail} of {row['blocks_per_wave']} blocks" if tail else "no tail"
    return (
        f"{row['tiles']:,} tiles of {row['m']}×{row['n']} = {row['waves']:.2f} waves; {last}; "
        f"{row['wave_efficiency']:.1%} of the places filled"
    )


def _verdict(row: dict[str, Any]) -> str:
    if row["bound"] == "arithmetic":
        return "above the balance: even from DRAM the tiles would come fast enough"
    return (
        f"if all tiles came from DRAM, memory would bind at {row['attainable_tflops']:.1f} "
        f"TFLOP/s; the L2 cache must serve the rest"
    )


def _grid(plan: Tile, row: dict[str, Any]) -> Iterator[Text]:
    """Intensity over BM×BN, the chosen tile in brackets."""
    yield heading("FLOP per byte over BM (down) and BN (across)")
    yield line("        " + "".join(f"{bn:>8}" for bn in _SIDES))
    for bm in _SIDES:
        cells: list[str | tuple[str, str]] = [f"{bm:>8}"]
        for cell in row["curve"]:
            if cell["bm"] == bm:
                here = (bm, cell["bn"]) == (plan.bm, plan.bn)
                shown = f"{cell['intensity']:.1f}"
                cells.append((f"[{shown}]".rjust(8), "bold") if here else f"{shown} ".rjust(8))
        yield line(*cells)


def _curve(plan: Tile, row: dict[str, Any], width: int) -> Iterator[Text]:
    """Of square tiles: what is gained, and what it costs in shared memory."""
    yield heading(f"Square tiles: intensity, and bytes of {plan.stages}×(A and B) at BK={plan.bk}")
    most = max(cell["intensity"] for cell in row["curve"])
    room = max(width - 34, 10)
    for cell in row["curve"]:
        side = cell["bm"]
        if side == cell["bn"]:
            drawn = bar(cell["intensity"], most, room)
            cost = plan.stages * plan.element_bytes * plan.bk * 2 * side
            yield line(
                f"{side:>8} ", (drawn, "green"), f" {cell['intensity']:.1f} FLOP/B, {cost} B"
            )
