"""The picture of ratios: a row a shape under its suite, beside the rows a close view of 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.bench.plot_parts import (
    BAND,
    INK,
    NEAR,
    PALE,
    WIDTH,
    head,
    legend,
    libraries_note,
    looks,
    noise_note,
    whiskers,
)
from tilewright.bench.suites import suites

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tilewright.bench.charts import Chart, Point

_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)
_LANE = 0.067  # inches between two marks of a row
_LANES = 3  # a row is at least so many high, for its label,
_SPACE = 0.6  # with so much between the marks of two rows,
_HEAD = 3.6  # and a group's heading so high


@dataclass(frozen=True)
class Row:
    """A shape's place in the picture, in lanes from the top."""

    shape: str
    top: float
    height: float
    points: tuple[Point, ...]
    at: tuple[float, ...]  # the lane of each point

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


def groups(points: Sequence[Point]) -> dict[str, list[str]]:
    """The shapes of each suite in its order, those unaligned under a heading of their own.

    Shapes of no suite are last.
    """
    known = {
        f"{at.m}×{at.n}×{at.k} {at.layout}": (name, place)
        for name, shapes in reversed(suites().items())
        for place, at in enumerate(shapes)
    }
    order, seen = [*suites(), "other shapes"], {point.shape: point for point in points}
    found: dict[tuple[int, bool], list[tuple[int, str]]] = {}
    for number, (shape, point) in enumerate(seen.items()):
        name, place = known.get(shape, (order[-1], number))
        found.setdefault((order.index(name), not point.aligned), []).append((place, shape))
    return {
        order[suite] + (", rows no multiple of 16 bytes" if unaligned else ""): [
            shape for _, shape in sorted(found[suite, unaligned])
        ]
        for suite, unaligned in sorted(found)
    }


def near(point: Point) -> bool:
    return NEAR[0] <= (point.ratio or 0) <= NEAR[1]


def lay_out(chart: Chart) -> tuple[list[tuple[str, float]], list[Row], float]:
    """The headings and their lanes, the rows, and how many lanes there are.

    The marks near 1 and those far from it share a row's lanes, as they never meet.
    """
    order = {name: place for place, name in enumerate(chart.names)}
    headings, rows, top = [], [], 0.0
    for heading, shapes in groups(chart.points).items():
        headings.append((heading, top))
        top += _HEAD
        for shape in shapes:
            here = [point for point in chart.points if point.shape == shape]
            here.sort(key=lambda point: order[point.name])
            sides = [[pt for pt in here if near(pt) == wanted] for wanted in (True, False)]
            height = max(_LANES, *(len(side) for side in sides)) + _SPACE
            at = [
                top + height / 2 + place - (len(side) - 1) / 2
                for side in sides
                for place in range(len(side))
            ]
            rows.append(Row(shape, top, height, (*sides[0], *sides[1]), tuple(at)))
            top += height
    return headings, rows, top


def draw_ratio(figure: Any, chart: Chart) -> None:
    """All ratios on a logarithmic axis, and those near 1 on a linear one, the rows in common."""
    headings, rows, lanes = lay_out(chart)
    close = [near(point) for point in chart.points]
    panels = [whole for whole in (True, False) if (not all(close) if whole else any(close))]
    figure.set_size_inches(WIDTH, 2.3 + _LANE * lanes)
    panes = figure.subplots(
        1, len(panels), sharey=True, squeeze=False, width_ratios=[1, 1.7][: len(panels)]
    )[0]
    handles: dict[str, Any] = {}
    for axes, whole in zip(panes, panels, strict=True):
        handles |= _draw_rows(axes, chart, rows, whole)
        (_whole_axis if whole else _near_axis)(axes, chart)
    for heading, top in headings:
        words = panes[0].text(
            0, top + 0.6 * _HEAD, heading, transform=panes[0].get_yaxis_transform(), va="center",
            ha="left", fontsize=10, fontweight="bold", color=INK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )  # fmt: skip
        words.set_in_layout(False)  # it may reach above the other panel
    panes[-1].patch.set_visible(False)
    panes[0].set_yticks([row.middle for row in rows], [row.shape for row in rows], fontsize=8.5)
    panes[0].set_ylim(lanes + 0.5, 0)
    panes[-1].set_xlabel(f"speed ÷ {chart.rival}; above 1 is faster than {chart.rival}")
    views = "left: all ratios; right: those near 1" if len(panels) > 1 else ""
    notes = ["median over the rounds, whiskers from p20 to p80", libraries_note(chart)]
    second = " · ".join(filter(None, (views, noise_note(chart))))
    head(figure, chart, " · ".join(filter(None, notes)), second)
    legend(figure, chart, handles)


def _draw_rows(axes: Any, chart: Chart, rows: Sequence[Row], whole: bool) -> dict[str, Any]:
    """Every row's stripe, noise and marks; the close view has no marks far from 1."""
    known, handles = looks(chart), {}
    for row in rows:
        axes.axhspan(row.top + 0.15, row.top + row.height - 0.15, color=PALE, lw=0, zorder=0)
        if band := chart.band(row.shape):
            axes.fill_betweenx(
                [row.top + 0.15, row.top + row.height - 0.15], *band, color=BAND, lw=0, zorder=0.7
            )
    for name, look in known.items():
        ours = [
            (point, at)
            for row in rows
            for point, at in zip(row.points, row.at, strict=True)
            if point.name == name and (whole or near(point))
        ]
        style = look | {"linestyle": "none"}
        handles[name] = axes.errorbar(
            [point.ratio for point, _ in ours], [at for _, at in ours],
            xerr=whiskers([point for point, _ in ours]), ms=4.3, elinewidth=0.9, **style,
        )  # fmt: skip
    axes.axvline(1, color=INK, linewidth=0.9, zorder=0.8)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    return handles


def _whole_axis(axes: Any, chart: Chart) -> None:
    edges = list(_edges((*chart.points, *chart.noise)))
    low, high = min(1, *edges) / 1.15, max(1, *edges) * 1.15
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.minorticks_off()
    shown = [tick for tick in _TICKS if low <= tick <= high]
    axes.set_xticks(shown, [f"{tick:g}" for tick in shown], fontsize=9)


def _near_axis(axes: Any, chart: Chart) -> None:
    axes.set_xlim(*NEAR)
    ticks = [0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2, 1.25]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=9)
    axes.grid(axis="x", color="white", linewidth=0.8, zorder=0.2)
    axes.set_axisbelow(True)


def _edges(points: Iterable[Point]) -> Iterable[float]:
    for point in points:
        yield from (edge for edge in (point.ratio, point.ratio_p20, point.ratio_p80) if edge)
