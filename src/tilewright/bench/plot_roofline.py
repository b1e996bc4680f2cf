"""The roofline: both roofs and a mark for each kernel and shape."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tilewright.bench.plot_parts import GRID, INK, WIDTH, head, legend, libraries_note, looks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.bench.charts import Ceiling, Chart, Point


def draw_roofline(figure: Any, chart: Chart) -> None:
    """Marks often share a place, so later ones are smaller, and libraries' hollow as ever."""
    figure.set_size_inches(WIDTH, 6.4)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    below = far_below(chart.points)
    if chart.roofs:
        _draw_roofs(axes, chart.roofs, [point for point in chart.points if point not in below])
    handles: dict[str, Any] = {}
    for place, (name, look) in enumerate(looks(chart).items()):
        ours = [pt for pt in chart.points if pt.name == name and pt not in below]
        (handles[name],) = axes.plot(
            [point.intensity for point in ours], [point.tflops for point in ours],
            ms=8.5 - 3 * place / len(chart.names), **look | {"linestyle": "none"},
        )  # fmt: skip
    _point_below(axes, below)
    for axis, edges in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        ticks = decades(*edges)
        axis.set_ticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel("arithmetic intensity: FLOP per byte of A, B and C, each moved once")
    axes.set_ylabel("TFLOP/s")
    dated = f"roofs measured {chart.roofs.taken[:10]}" if chart.roofs and chart.roofs.taken else ""
    arrows = "arrow: a shape below the picture, its fastest kernel" if below else ""
    head(figure, chart, " · ".join(filter(None, (libraries_note(chart), dated, arrows))))
    legend(figure, chart, handles)


def far_below(points: Sequence[Point]) -> list[Point]:
    """The few points, a tenth at most, that lie more than a decade under all others."""
    ordered = sorted(points, key=lambda point: point.tflops or 0)
    few = len(ordered) // 10
    gaps = [
        place
        for place, (low, high) in enumerate(pairwise(ordered[: few + 1]), start=1)
        if (high.tflops or 0) > 10 * (low.tflops or 0)
    ]
    return ordered[: gaps[-1]] if gaps else []


def _point_below(axes: Any, points: Sequence[Point]) -> None:
    """An arrow at the lower edge for each shape left out below, with the best that it reached."""
    bottom, top = axes.get_ylim()
    best = {point.shape: point for point in sorted(points, key=lambda point: point.tflops or 0)}
    for point in best.values():
        axes.annotate(
            f"{point.shape}: {point.tflops:.2g} TFLOP/s",
            (point.intensity, bottom), (point.intensity, bottom * (top / bottom) ** 0.06),
            ha="center", va="bottom", fontsize=8.5, color=INK,
            arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.1},
        )  # fmt: skip


def _draw_roofs(axes: Any, roofs: Ceiling, points: Sequence[Point]) -> None:
    """The limits of the axes, both roofs with their figures, and the ridge where they meet."""
    xs = [point.intensity or roofs.ridge for point in points]
    ys = [point.tflops or roofs.matrix_tflops for point in points]
    left, right = min(*xs, roofs.ridge / 6) / 1.6, max(*xs, roofs.ridge * 6) * 1.6
    bottom = min(*ys, roofs.matrix_tflops / 12) / 1.8
    top = max(*ys, roofs.matrix_tflops) * (roofs.matrix_tflops / bottom) ** 0.1
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    corners = [left, roofs.ridge, right]
    heights = [roofs.tflops(at) for at in corners]
    axes.fill_between(corners, heights, top, color="#F3F3F3", linewidth=0, zorder=0)
    axes.plot(corners, heights, color=INK, linewidth=1.6, zorder=1.5)
    axes.plot([roofs.ridge] * 2, [bottom, roofs.matrix_tflops], ":", color=INK, linewidth=0.9)
    axes.plot(roofs.ridge, roofs.matrix_tflops, "o", color=INK, markerfacecolor="white", ms=6)
    words = {"color": INK, "fontsize": 9, "rotation_mode": "anchor"}
    lift, across = (top / bottom) ** 0.022, (right / left) ** 0.01
    slope = math.sqrt(max(left, bottom * 1e3 / roofs.memory_gbps) * roofs.ridge)
    axes.text(
        slope, roofs.tflops(slope) * lift, f"{roofs.memory_gbps:,.0f} GB/s, {roofs.source}",
        rotation=math.degrees(math.atan(roofs.memory_gbps / 1e3 * lift)),
        transform_rotates_text=True, ha="center", va="bottom", **words,
    )  # fmt: skip
    axes.text(
        right / across, roofs.matrix_tflops * lift,
        f"{roofs.matrix_tflops:,.0f} TFLOP/s, {roofs.source}", ha="right", **words,
    )  # fmt: skip
    axes.text(roofs.ridge * across, bottom * lift, f"ridge: {roofs.ridge:,.0f} FLOP/byte", **words)


def decades(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, with 2 and 5 where there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if len(powers) > 4 else (1, 2, 5)
    ticks = [float(f"{step}e{power}") for power in powers for step in steps]
    return [tick for tick in ticks if low <= tick <= high]
