"""`tilewright explain roofline`: where a product and its tiles lie under a GPU's roof."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.cli.explain_draw import Drawing, heading, line, sentence
from tilewright.cli.explain_options import GpuName, K, M, MaybeNumber, N, check_range
from tilewright.cli.options import JsonTarget, Whole
from tilewright.cli.output import check_targets, emit
from tilewright.errors import InputError
from tilewright.model.formats import format_named
from tilewright.model.raster import Grid
from tilewright.model.roofline import Roof, gemm_bytes, gemm_flops, peak_tflops

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from tilewright.gpus import Gpu

_HEIGHT = 14
_SHORTEST, _LONGEST = 1e-6, 1e12  # microseconds that a product may have taken
_LOW, _HIGH = -3, 13  # the axis of intensities runs from 2^-3 to 2^13 FLOP a byte


@dataclass(frozen=True)
class _Point:
    """`tflops` was measured; None stands on the roof."""

    mark: str
    name: str
    intensity: float
    tflops: float | None = None


def roofline(
    *,
    m: M = 4096,
    n: N = 4096,
    k: K = 4096,
    bm: Whole = 128,
    bn: Whole = 128,
    dtype: str = "bf16",
    gpu: GpuName = "h200",
    us: MaybeNumber = None,
    json: JsonTarget = None,
) -> int:
    """Draw a GPU's roof, and under it a product: unshared, in tiles, and with every byte once.

    Peaks are those of data sheets; tilewright bench measures what a GPU reaches.

    Example: tilewright explain roofline -m 128 -n 4096 -k 4096 --us 14.1

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
        Type of A, B and C.
    us
        A measured time in microseconds, to be shown under the roof.
    """
    from tilewright.gpus import gpu_named

    check_targets(json)
    check_range(m=m, n=n, k=k, bm=bm, bn=bn)
    if us is not None and not _SHORTEST <= us <= _LONGEST:
        raise InputError(f"us={us:g} must be {_SHORTEST:g}..{_LONGEST:g} microseconds.")
    chip, form = gpu_named(gpu), format_named(dtype)
    roof = Roof(peak_tflops(chip, form.name), chip.memory_gbps)
    flops, least = gemm_flops(m, n, k), gemm_bytes(m, n, k, form.bytes)
    tiled = Grid(m, n, k, bm, bn, form.bytes).read_bytes
    points = [
        _Point("a", "each operand from DRAM", 1 / form.bytes),
        _Point("b", f"each {bm}×{bn} tile from DRAM", flops / tiled),
        _Point("c", "A, B and C once", flops / least),
    ]
    if us is not None:
        points.append(_Point("x", f"measured, {us:g} µs", flops / least, flops / us / 1e6))
    rows = [_row(chip, form.name, (m, n, k), roof, point) for point in points]
    emit("explain-roofline", rows, _picture(chip, form.name, (m, n, k), roof, points), json)
    return 0


def _row(
    gpu: Gpu, dtype: str, mnk: tuple[int, int, int], roof: Roof, point: _Point
) -> dict[str, Any]:
    attainable = roof.attainable(point.intensity)
    return {
        "gpu": gpu.name, "dtype": dtype, "m": mnk[0], "n": mnk[1], "k": mnk[2],
        "name": point.name, "intensity": point.intensity, "attainable_tflops": attainable,
        "bound": roof.bound(point.intensity), "us": gemm_flops(*mnk) / attainable / 1e6,
        "tflops": point.tflops,
        "share_of_roof": None if point.tflops is None else point.tflops / attainable,
        "peak_tflops": roof.tflops, "memory_gbps": roof.gbps, "machine_balance": roof.balance,
    }  # fmt: skip


def _picture(
    gpu: Gpu, dtype: str, mnk: tuple[int, int, int], roof: Roof, points: list[_Point]
) -> RenderableType:
    def draw(width: int) -> Iterator[Text]:
        yield heading(f"{mnk[0]}×{mnk[1]}×{mnk[2]} {dtype} under the roof of {gpu.title}")
        yield from _plot(roof, points, max(width - 10, 40))
        yield line(
            ("         FLOP per byte, 2^-3 to 2^13; TFLOP/s on the left, both logarithmic", "dim")
        )
        yield from sentence(
            f"balance {roof.tflops:g} TFLOP/s ÷ {roof.gbps:,} GB/s = {roof.balance:.1f} FLOP/B",
            width,
        )
        yield line("")
        for point in points:
            first, *rest = sentence(_words(roof, point, mnk), width - 5)
            yield line((f"  {point.mark}  ", "bold"), first.plain)
            yield from (line(" " * 5, more.plain) for more in rest)

    return Drawing(draw)


def _words(roof: Roof, point: _Point, mnk: tuple[int, int, int]) -> str:
    attainable = roof.attainable(point.intensity)
    if point.tflops is not None:
        share = point.tflops / attainable
        shown = f"{point.name}: {point.tflops:.4g} TFLOP/s, {share:,.0%} of its roof"
        return shown if share <= 1 else f"{shown}; {_beyond(roof, point.tflops)}"
    floor = gemm_flops(*mnk) / attainable / 1e6
    return (
        f"{point.name}: {point.intensity:.4g} FLOP/B, at most {attainable:.4g} TFLOP/s "
        f"({_time(floor)}), by {roof.bound(point.intensity)}"
    )


def _beyond(roof: Roof, tflops: float) -> str:
    """What a time below the least that is possible may mean."""
    if tflops > roof.tflops:
        return "no kernel can do more than the GPU: is the time, shape, type or GPU another one?"
    return "DRAM does not give so much: were A and B in the L2 cache?"


def _time(us: float) -> str:
    return f"{us:,.0f} µs" if us >= 1000 else f"{us:.4g} µs"


def _plot(roof: Roof, points: list[_Point], columns: int) -> Iterator[Text]:
    top = math.log2(roof.tflops)
    bottom = math.log2(roof.attainable(2.0**_LOW))
    cells = [[" "] * columns for _ in range(_HEIGHT + 1)]

    def place(intensity: float, tflops: float) -> tuple[int, int]:
        across = (math.log2(intensity) - _LOW) / (_HIGH - _LOW) * (columns - 1)
        up = (math.log2(tflops) - bottom) / (top - bottom) * _HEIGHT
        return (
            _HEIGHT - min(max(round(up), 0), _HEIGHT),
            min(max(round(across), 0), columns - 1),
        )

    for column in range(columns):
        intensity = 2 ** (_LOW + (_HIGH - _LOW) * column / (columns - 1))
        row, _ = place(intensity, roof.attainable(intensity))
        cells[row][column] = "─" if intensity >= roof.balance else "·"
    for point in points:
        row, column = place(point.intensity, point.tflops or roof.attainable(point.intensity))
        cells[row][column] = point.mark
    for row, letters in enumerate(cells):
        label = ""
        if row % 4 == 0 or row == _HEIGHT:
            label = f"{2 ** (bottom + (top - bottom) * (_HEIGHT - row) / _HEIGHT):.3g}"
        yield line((f"{label:>8} │", "dim"), "".join(letters).rstrip())
    yield line((f"{'':>8} └{'─' * columns}", "dim"))
