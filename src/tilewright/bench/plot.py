"""Pictures of charts with matplotlib, the same bytes for the same chart: PNG or SVG.

Marks differ in shape and lightness, so that grey print and colour-blind eyes lose nothing.
"""

from __future__ import annotations

import importlib
import io
import math
from typing import TYPE_CHECKING, Any

from tilewright.errors import InputError, ToolchainError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tilewright.bench.charts import Ceiling, Chart, Point

FORMATS = (".png", ".svg")

# Okabe and Ito's colours, dark and light in turn.
_COLORS = ("#000000", "#D55E00", "#0072B2", "#CC79A7", "#009E73", "#E69F00", "#56B4E9")
_MARKS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
_RUNG, _PEER, _INK, _BAND = "#0072B2", "#D9D9D9", "#222222", "#C4C4C4"
_WIDTH = 8.6  # inches
_ENDS = 10  # so many names have room at the ends of their lines
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)
_RC = {
    "svg.hashsalt": "tilewright",
    "svg.fonttype": "path",
    "text.parse_math": False,  # a $ in a name is a $
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(chart: Chart, suffix: str) -> bytes:
    """The picture as a PNG or SVG file's bytes (`suffix` is ".png" or ".svg").

    Its metadata hold the chart in words as the title, and the digest of what was drawn, by which
    a stale picture is known whatever matplotlib drew it.
    Raises: InputError for another suffix; ToolchainError without matplotlib.
    """
    if suffix not in FORMATS:
        raise InputError(f"suffix={suffix!r} must be {' or '.join(FORMATS)}.")
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise ToolchainError(
            f'plots need matplotlib ({error}): pip install "tilewright[plot]".'
        ) from None
    drawers = {
        "ladder": _draw_ladder,
        "size": _draw_size,
        "ratio": _draw_ratio,
        "roofline": _draw_roofline,
    }
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the user's own style is
        matplotlib.rcParams.update(_RC)
        figure = figures.Figure(layout="constrained", facecolor="white")
        drawers[chart.kind](figure, chart)
        file = io.BytesIO()
        metadata: dict[str, str | None] = {"Title": chart.alt, "Description": describe(chart)}
        # Without what differs from day to day and from one matplotlib to the next.
        metadata |= {"Date": None, "Creator": None} if suffix == ".svg" else {"Software": None}
        figure.savefig(file, format=suffix[1:], dpi=150, metadata=metadata)
    return file.getvalue()


def describe(chart: Chart) -> str:
    """What made the picture, in one line: the command's kind and the digest of what is drawn."""
    return f"tilewright plot {chart.kind}, points {chart.digest}"


def styles(names: Sequence[str]) -> dict[str, tuple[str, str, Any]]:
    """Colour, mark and dash of each kernel.

    No two of 7 share any of them. Of 49, no two share both colour and mark, nor colour and dash:
    where no lines are drawn, marks must do.
    """
    found = {}
    for place, name in enumerate(names):
        turn, color = divmod(place, len(_COLORS))
        mark, dash = (color + turn) % len(_MARKS), (color + 2 * turn) % len(_DASHES)
        found[name] = (_COLORS[color], _MARKS[mark], _DASHES[dash])
    return found


def _head(figure: Any, chart: Chart, note: str = "") -> None:
    """Title and facts, left above everything."""
    figure.suptitle(chart.title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=_INK)
    facts = chart.facts + (f"\n{note}" if note else "")
    figure.axes[0].set_title(facts, loc="left", fontsize=9, color="#444444", pad=10)


def _noise_note(chart: Chart) -> str:
    known = chart.band(chart.points)
    return f"grey band: {chart.rival} timed against itself" if known else ""


def _draw_ladder(figure: Any, chart: Chart) -> None:
    points = chart.points
    figure.set_size_inches(_WIDTH, 1.5 + 0.44 * len(points))
    axes = figure.subplots()
    longest = max((point.tflops or 0 for point in points), default=0) or 1
    for row, point in enumerate(points):
        fill = _PEER if point.peer else _RUNG
        width = point.tflops or 0
        words = f"{width:.0f}" if width else "wrong result"
        words += f"  {point.ratio:.2f}×" if point.ratio else ""
        axes.barh(row, width, height=0.68, color=fill, edgecolor=_INK, linewidth=0.8)
        axes.text(width + longest * 0.012, row, words, va="center", color=_INK)
        if point.name == chart.rival and width:
            axes.axvline(width, color=_INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
    axes.set_yticks(range(len(points)), [point.name for point in points])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(points) - 0.45, -0.55)
    axes.set_xlim(0, longest * 1.22)
    axes.set_xlabel("TFLOP/s, from the median time of the rounds")
    _head(figure, chart, f"×: speed ÷ {chart.rival}, the dashed line" if chart.rival else "")


def _draw_size(figure: Any, chart: Chart) -> None:
    figure.set_size_inches(_WIDTH, 5.2)
    axes = figure.subplots()
    sizes = sorted({point.n for point in chart.points})
    top = max(point.tflops or 0 for point in chart.points) * 1.08
    handles: dict[str, Any] = {}
    for name, (color, mark, dash) in styles(chart.names).items():
        ours = [(pt.n, pt.tflops or 0) for pt in chart.points if pt.name == name]
        (handles[name],) = axes.plot(
            *zip(*ours, strict=True), color=color, marker=mark, linestyle=dash, ms=5.5
        )
    if band := chart.band(chart.points):
        theirs = [(pt.n, pt.tflops or 0) for pt in chart.points if pt.name == chart.rival]
        low, high = ([tflops * edge for _, tflops in theirs] for edge in band)
        axes.fill_between([n for n, _ in theirs], low, high, color=_BAND, linewidth=0, zorder=0.5)
    axes.set_xscale("log", base=2)
    axes.minorticks_off()
    axes.set_xticks(_readable(sizes), [str(n) for n in _readable(sizes)])
    axes.set_ylim(0, top)
    axes.grid(axis="y", color="#E5E5E5", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel("n = m = k")
    axes.set_ylabel("TFLOP/s")
    if len(handles) > _ENDS:
        figure.set_figheight(5.2 + 0.06 * len(handles))
        _legend(figure, chart, handles)
    else:
        _name_ends(axes, sizes, handles, top / 19)
    _head(figure, chart, _noise_note(chart))


def _name_ends(axes: Any, sizes: Sequence[int], lines: Mapping[str, Any], height: float) -> None:
    """Each kernel's name beside the end of its line; a name is so high."""
    beside = sizes[-1] * (max(sizes[-1] / sizes[0], 2) ** 0.05)
    ends = {name: line.get_xydata()[-1] for name, line in lines.items()}
    for name, at in _apart({name: end[1] for name, end in ends.items()}, height).items():
        color = lines[name].get_color()
        thread = {"arrowstyle": "-", "color": color, "lw": 0.7, "shrinkA": 2, "shrinkB": 5}
        axes.annotate(
            name, ends[name], (beside, at), va="center", color=_INK, fontsize=9,
            arrowprops=thread, annotation_clip=False,
        )  # fmt: skip


def _readable(sizes: Sequence[int]) -> list[int]:
    """Sizes whose labels have room beside each other; powers of two come first."""
    room = max(sizes[-1] / sizes[0], 2) ** 0.055
    shown: list[int] = []
    for size in sorted(sizes, key=lambda size: (size & (size - 1) != 0, -size)):
        if all(max(size, other) / min(size, other) > room for other in shown):
            shown.append(size)
    return sorted(shown)


def _apart(wanted: Mapping[str, float], gap: float) -> dict[str, float]:
    """Heights in the order wanted, at least `gap` apart; what is too close moves up."""
    heights: dict[str, float] = {}
    floor = -gap
    for name in sorted(wanted, key=lambda name: wanted[name]):
        heights[name] = floor = max(wanted[name], floor + gap)
    return heights


def _draw_ratio(figure: Any, chart: Chart) -> None:
    halves = [[pt for pt in chart.points if pt.aligned == wanted] for wanted in (True, False)]
    panels = [points for points in halves if points]
    rows = [len({point.shape for point in points}) for points in panels]
    step = min(max(0.3, 0.08 * len(chart.names)), 1)
    figure.set_size_inches(_WIDTH, 2.2 + step * sum(rows) + 0.6 * len(panels))
    ratios = [count + 0.8 for count in rows]
    panes = figure.subplots(len(panels), sharex=True, squeeze=False, height_ratios=ratios)
    handles: dict[str, Any] = {}
    for axes, points in zip(panes[:, 0], panels, strict=True):
        handles |= _draw_panel(axes, chart, points)
    _ratio_axis(panes[-1, 0], chart)
    notes = ["median over the rounds, whiskers from p20 to p80", _noise_note(chart)]
    _head(figure, chart, "\n".join(filter(None, notes)))
    _legend(figure, chart, handles)


def _legend(figure: Any, chart: Chart, handles: Mapping[str, Any]) -> None:
    """Every kernel's mark, below everything, in rows as even as can be that fit the width."""
    count, longest = len(chart.names), max(map(len, chart.names))
    fit = min(5, max(1, int(_WIDTH / (0.5 + 0.08 * longest))))
    figure.legend(
        [handles[name] for name in chart.names], chart.names, loc="outside lower center",
        ncols=-(-count // -(-count // fit)), frameon=False, fontsize=9,
    )  # fmt: skip


def _draw_panel(axes: Any, chart: Chart, points: Sequence[Point]) -> dict[str, Any]:
    """One panel, a row a shape, the kernels of a row under each other; handles by name."""
    shapes = list(dict.fromkeys(point.shape for point in points))
    count, handles = len(chart.names), {}
    for place, (name, (color, mark, _)) in enumerate(styles(chart.names).items()):
        if not (ours := [point for point in points if point.name == name]):
            continue
        shift = (place - (count - 1) / 2) * 0.7 / count
        middle = [point.ratio or 0 for point in ours]
        low = [max(0, at - (pt.ratio_p20 or at)) for at, pt in zip(middle, ours, strict=True)]
        high = [max(0, (pt.ratio_p80 or at) - at) for at, pt in zip(middle, ours, strict=True)]
        handles[name] = axes.errorbar(
            middle, [shapes.index(point.shape) + shift for point in ours], xerr=[low, high],
            fmt=mark, color=color, ms=5, elinewidth=1.2, capsize=2,
        )  # fmt: skip
    for row in range(0, len(shapes), 2):
        axes.axhspan(row - 0.5, row + 0.5, color="#F3F3F3", zorder=0, linewidth=0)
    if band := chart.band(points):
        axes.axvspan(*band, color=_BAND, zorder=0.5, linewidth=0)
    axes.axvline(1, color=_INK, linewidth=1)
    axes.set_yticks(range(len(shapes)), shapes, fontsize=9)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(shapes) - 0.5, -0.5)
    words = f"{'every row a' if points[0].aligned else 'some rows no'} multiple of 16 bytes"
    axes.set_title(words, loc="right", fontsize=9, style="italic", color=_INK)
    return handles


def _ratio_axis(axes: Any, chart: Chart) -> None:
    points = (*chart.points, *chart.noise)
    edges = [edge for pt in points for edge in (pt.ratio, pt.ratio_p20, pt.ratio_p80) if edge]
    low, high = min(1, *edges) / 1.12, max(1, *edges) * 1.12
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.minorticks_off()
    shown = [tick for tick in _TICKS if low <= tick <= high]
    axes.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axes.set_xlabel(f"speed ÷ {chart.rival}; above 1 is faster than {chart.rival}")


def _draw_roofline(figure: Any, chart: Chart) -> None:
    """Both roofs and a mark for each kernel and shape.

    Marks often share a place, so peers' are hollow and later ones smaller.
    """
    figure.set_size_inches(_WIDTH, 6.4)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    if chart.roofs:
        _draw_roofs(axes, chart.roofs, chart.points)
    handles: dict[str, Any] = {}
    for place, (name, (color, mark, _)) in enumerate(styles(chart.names).items()):
        ours = [point for point in chart.points if point.name == name]
        (handles[name],) = axes.plot(
            [point.intensity for point in ours], [point.tflops for point in ours], mark,
            color=color, ms=8.5 - 3 * place / len(chart.names),
            markerfacecolor="none" if ours[0].peer else color,
            markeredgecolor=color if ours[0].peer else "white",
            markeredgewidth=1.3 if ours[0].peer else 0.6,
        )  # fmt: skip
    for axis, edges in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        ticks = _decades(*edges)
        axis.set_ticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(color="#E5E5E5", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel("arithmetic intensity: FLOP per byte of A, B and C, each moved once")
    axes.set_ylabel("TFLOP/s")
    dated = f"roofs measured {chart.roofs.taken[:10]}" if chart.roofs and chart.roofs.taken else ""
    notes = ["hollow marks: libraries" if any(pt.peer for pt in chart.points) else "", dated]
    _head(figure, chart, " · ".join(filter(None, notes)))
    _legend(figure, chart, handles)


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
    axes.plot(corners, heights, color=_INK, linewidth=1.6, zorder=1.5)
    axes.plot([roofs.ridge] * 2, [bottom, roofs.matrix_tflops], ":", color=_INK, linewidth=0.9)
    axes.plot(roofs.ridge, roofs.matrix_tflops, "o", color=_INK, markerfacecolor="white", ms=6)
    words = {"color": _INK, "fontsize": 9, "rotation_mode": "anchor"}
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


def _decades(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, with 2 and 5 where there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if len(powers) > 4 else (1, 2, 5)
    ticks = [float(f"{step}e{power}") for power in powers for step in steps]
    return [tick for tick in ticks if low <= tick <= high]
