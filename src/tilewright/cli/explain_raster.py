"""`tilewright explain raster`: what each wave reads under several orders of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tilewright.cli.explain_draw import Drawing, bar, heading, line, sentence, size
from tilewright.cli.explain_options import GpuName, K, M, N, check_range, check_resident
from tilewright.cli.options import JsonTarget, Whole
from tilewright.cli.output import check_targets, emit
from tilewright.model.formats import format_named
from tilewright.model.raster import Grid, Order, WaveReads, order_named, wave_reads
from tilewright.model.waves import waves

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from tilewright.gpus import Gpu

_ORDERS = ("rows", "panels:8", "panels:16", "groups:8")
_MOST_DRAWN = 32  # tiles along each side of a map
_MOST_WAVES = 1000  # of an order, in the JSON document


def raster(
    *,
    m: M = 4096,
    n: N = 4096,
    k: K = 4096,
    bm: Whole = 128,
    bn: Whole = 128,
    dtype: str = "bf16",
    gpu: GpuName = "h200",
    blocks_per_sm: Whole = 2,
    order: Annotated[list[str] | None, Parameter(negative=())] = None,
    json: JsonTarget = None,
) -> int:
    """Count the unique bytes of A and B that each wave of blocks reads, by order of the blocks.

    What blocks of a wave share comes from the L2 cache; the rest, at the latest, from DRAM.

    Example: tilewright explain raster --gpu rtx5060

    Parameters
    ----------
    m
        Rows of C.
    n
        Columns of C.
    k
        Columns of A.
    bm
        Rows of C of a block.
    bn
        Columns of C of a block.
    dtype
        Type of A and B.
    blocks_per_sm
        Resident blocks of an SM (see explain tile).
    order
        rows, columns, panels:W (W tile columns wide, as the rungs walk), groups:W (Triton's
        GROUP_SIZE_M). May be given again.
    """
    from tilewright.gpus import gpu_named

    check_targets(json)
    check_range(m=m, n=n, k=k, bm=bm, bn=bn)
    chip = gpu_named(gpu)
    check_resident(chip, blocks_per_sm)
    grid = Grid(m, n, k, bm, bn, format_named(dtype).bytes)
    orders = [order_named(text) for text in dict.fromkeys(order or _ORDERS)]
    per_wave = waves(1, chip.sms, blocks_per_sm).per_wave
    reads = {each.name: wave_reads(each, grid, per_wave) for each in orders}
    rows = [_row(grid, chip, name, found) for name, found in reads.items()]
    emit("explain-raster", rows, _picture(grid, chip, orders, rows, per_wave), json)
    return 0


def _row(grid: Grid, gpu: Gpu, name: str, reads: list[WaveReads]) -> dict[str, Any]:
    unique = sum(wave.bytes for wave in reads)
    return {
        "order": name, "gpu": gpu.name, "m": grid.m, "n": grid.n, "k": grid.k,
        "bm": grid.bm, "bn": grid.bn, "tiles_m": grid.tiles[0], "tiles_n": grid.tiles[1],
        "blocks_per_wave": reads[0].blocks,
        "waves": len(reads), "unique_bytes": unique,
        "unique_bytes_per_wave": unique / len(reads),
        "read_bytes": grid.read_bytes, "least_bytes": grid.least_bytes,
        "shared": 1 - unique / grid.read_bytes, "l2_bytes": gpu.l2_bytes,
        "per_wave": [
            {"blocks": w.blocks, "rows": w.rows, "columns": w.columns, "bytes": w.bytes}
            for w in reads[:_MOST_WAVES]
        ],
    }  # fmt: skip


def _picture(
    grid: Grid, gpu: Gpu, orders: list[Order], rows: list[dict[str, Any]], per_wave: int
) -> RenderableType:
    def draw(width: int) -> Iterator[Text]:
        tiles_m, tiles_n = grid.tiles
        yield heading(
            f"{tiles_m}×{tiles_n} tiles of {grid.bm}×{grid.bn} on {gpu.title}, "
            f"{per_wave} blocks a wave"
        )
        yield from sentence(
            f"All blocks read {size(grid.read_bytes)}; A and B once are {size(grid.least_bytes)}; "
            f"the L2 cache holds {size(gpu.l2_bytes)}.",
            width,
        )
        yield line("")
        yield from _maps(grid, orders, per_wave, width)
        yield line(("order        first wave       unique, all waves   shared", "bold"))
        most = max(row["unique_bytes"] for row in rows)
        room = max(width - 60, 8)
        for row in rows:
            first = row["per_wave"][0]
            shape = f"{first['rows']}+{first['columns']} tiles"
            yield line(
                f"{row['order']:<13}{shape:<17}{size(row['unique_bytes']):>10}"
                f"{row['shared']:>17.1%}  ",
                (bar(row["unique_bytes"], most, room), "yellow"),
            )
        yield from sentence(_verdict(rows), width, "bold")

    return Drawing(draw)


def _maps(grid: Grid, orders: list[Order], per_wave: int, width: int) -> Iterator[Text]:
    """The tiles of the first two waves of each order, as many maps side by side as fit."""
    tiles_m, tiles_n = grid.tiles
    down, across = min(tiles_m, _MOST_DRAWN), min(tiles_n, _MOST_DRAWN)
    beside = max(1, (width + 3) // (max(across, 10) + 3))
    for first in range(0, len(orders), beside):
        some = orders[first : first + beside]
        yield line(*((f"{each.name:<{max(across, 10) + 3}}", "bold") for each in some))
        wave = [_waves_of(each, tiles_m, tiles_n, per_wave) for each in some]
        for m in range(down):
            cells = (
                "".join(_mark(one.get((m, n), 2)) for n in range(across)).ljust(max(across, 10) + 3)
                for one in wave
            )
            yield line("".join(cells).rstrip())
        yield line("")
    cut = " The first 32 tiles of each side." if max(tiles_m, tiles_n) > _MOST_DRAWN else ""
    yield line((f"█ first wave, ▒ second, · later.{cut}", "dim"))


def _waves_of(
    order: Order, tiles_m: int, tiles_n: int, per_wave: int
) -> dict[tuple[int, int], int]:
    blocks = range(min(2 * per_wave, tiles_m * tiles_n))
    return {order.tile(block, tiles_m, tiles_n): block // per_wave for block in blocks}


def _mark(wave: int) -> str:
    return "█▒·"[min(wave, 2)]


def _verdict(rows: list[dict[str, Any]]) -> str:
    best, worst = (f(rows, key=lambda row: row["unique_bytes"]) for f in (min, max))
    if best["unique_bytes"] == worst["unique_bytes"]:
        return "All orders read the same."
    factor = worst["unique_bytes"] / best["unique_bytes"]
    return f"{best['order']} reads least, {worst['order']} {factor:.2f} times as much."
