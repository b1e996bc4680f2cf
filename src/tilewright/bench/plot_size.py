"""The picture of throughput over size, and below it the speed beside the rival's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.bench.plot_parts import (
    BAND,
    GRID,
    INK,
    NEAR,
    WIDTH,
    head,
    legend,
    libraries_note,
    looks,
    noise_note,
    whiskers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tilewright.bench.charts import Chart, Point

_TILE = 128  # sizes between its multiples pad their tiles: single marks, on no line
_APART = 0.011  # of the axis' width between two kernels' marks of one size in the lower panel


def draw_size(figure: Any, chart: Chart) -> None:
    """TFLOP/s over size; where kernels come near the rival, their ratio to it on a panel below."""
    beside = [
        pt for pt in chart.points
        if joined(pt.n) and NEAR[0] <= (pt.ratio or 0) <= NEAR[1] and pt.name != chart.rival
    ]  # fmt: skip
    figure.set_size_inches(WIDTH, 7.2 if beside else 5.4)
    heights = [1.9, 1] if beside else [1]
    panes = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    handles = _draw_throughput(panes[0], chart)
    if beside:
        _draw_beside(panes[1], chart, beside)
    sizes = sorted({point.n for point in chart.points})
    panes[-1].set_xscale("log", base=2)
    panes[-1].minorticks_off()
    shown = readable([size for size in sizes if joined(size)] or sizes)
    panes[-1].set_xticks(shown, [str(size) for size in shown])
    panes[-1].set_xlabel("n = m = k")
    odd = ", ".join(str(size) for size in sizes if not joined(size))
    marks = f"marks on no line: {odd}, no multiple of {_TILE}" if odd else ""
    both = " · ".join(filter(None, (libraries_note(chart), noise_note(chart))))
    head(figure, chart, both, marks)
    legend(figure, chart, handles)


def joined(size: int) -> bool:
    """Whether lines pass through a size."""
    return size % _TILE == 0


def _draw_throughput(axes: Any, chart: Chart) -> dict[str, Any]:
    """A line a kernel, later ones with smaller marks, as libraries' often share a place."""
    known, handles = looks(chart), {}
    for place, (name, look) in enumerate(known.items()):
        ours = [point for point in chart.points if point.name == name]
        size = 8 - 3 * place / len(known)
        for wanted in (False, True):
            part = [point for point in ours if joined(point.n) == wanted]
            style = look if wanted else look | {"linestyle": "none"}
            (line,) = axes.plot(
                [pt.n for pt in part], [pt.tflops for pt in part], ms=size, lw=1.3, **style
            )
            if part:
                handles[name] = line
    theirs = [point for point in chart.points if point.name == chart.rival]
    _draw_noise(axes, chart, theirs, lambda point: point.tflops or 0)
    axes.set_ylim(0, max(point.tflops or 0 for point in chart.points) * 1.08)
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_ylabel("TFLOP/s")
    return handles


def _draw_beside(axes: Any, chart: Chart, points: Sequence[Point]) -> None:
    """Ratios near 1, the kernels of one size beside each other in the legend's order."""
    at = {point.n: point for point in points}
    order = {
        size: [
            name for name in chart.names if any((pt.n, pt.name) == (size, name) for pt in points)
        ]
        for size in at
    }
    sizes = [point.n for point in chart.points]
    step = max(max(sizes) / min(sizes), 2) ** _APART
    for name, look in looks(chart).items():
        ours = [point for point in points if point.name == name]
        places = [order[pt.n].index(name) - (len(order[pt.n]) - 1) / 2 for pt in ours]
        axes.errorbar(
            [pt.n * step**place for pt, place in zip(ours, places, strict=True)],
            [pt.ratio for pt in ours], yerr=whiskers(ours), ms=5, elinewidth=0.9,
            **look | {"linestyle": "none"},
        )  # fmt: skip
    _draw_noise(axes, chart, list(at.values()), lambda _: 1)
    axes.axhline(1, color=INK, linewidth=0.9, zorder=0.8)
    low, high = axes.get_ylim()
    axes.set_ylim(max(NEAR[0], low), min(NEAR[1], high))
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_ylabel(f"speed ÷ {chart.rival}")


def _draw_noise(
    axes: Any, chart: Chart, points: Sequence[Point], height: Callable[[Point], float]
) -> None:
    """At each point a grey bar as high as the rival's noise at that shape; a band between."""
    spans: Mapping[int, tuple[float, float]] = {
        point.n: (height(point) * band[0], height(point) * band[1])
        for point in points
        if (band := chart.band(point.shape))
    }
    for size, (low, high) in spans.items():
        axes.vlines(size, low, high, color=BAND, linewidth=9, zorder=0.5)
    along = [size for size in sorted(spans) if joined(size)]
    lows, highs = ([spans[size][edge] for size in along] for edge in (0, 1))
    axes.fill_between(along, lows, highs, color=BAND, linewidth=0, zorder=0.5)


def readable(sizes: Sequence[int]) -> list[int]:
    """Sizes whose labels have room beside each other; powers of two come first."""
    room = max(sizes[-1] / sizes[0], 2) ** 0.055
    shown: list[int] = []
    for size in sorted(sizes, key=lambda size: (size & (size - 1) != 0, -size)):
        if all(max(size, other) / min(size, other) > room for other in shown):
            shown.append(size)
    return sorted(shown)
