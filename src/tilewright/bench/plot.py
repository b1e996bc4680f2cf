"""Pictures made from measurement lines, and only from them: the ladder, sizes, ratios.

`gather` decides what is shown and is pure; `draw` turns it into PNG or SVG with matplotlib, the
same bytes for the same chart. Marks differ in shape and lightness, so that grey print and
colour-blind eyes lose nothing.
"""

from __future__ import annotations

import importlib
import io
from collections import Counter
from dataclasses import dataclass, fields
from itertools import cycle
from typing import TYPE_CHECKING, Any

from tilewright.bench.ladder import ON_GPU
from tilewright.bench.protocol import quantile
from tilewright.bench.report import newest
from tilewright.bench.suites import LAYOUTS, Shape
from tilewright.errors import InputError, ToolchainError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tilewright.bench.record import Measurement

KINDS = ("ladder", "size", "ratio")
FORMATS = (".png", ".svg")

# Okabe and Ito's colours, dark and light in turn; each has its own mark and line.
_STYLES = (
    ("#000000", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#0072B2", "^", "-."),
    ("#CC79A7", "D", ":"),
    ("#009E73", "v", (0, (5, 1))),
    ("#E69F00", "P", (0, (3, 1, 1, 1))),
    ("#56B4E9", "X", (0, (1, 1))),
)
_RUNG, _PEER, _INK = "#0072B2", "#D9D9D9", "#222222"
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)
_RC = {
    "svg.hashsalt": "tilewright",
    "svg.fonttype": "path",
    "text.parse_math": False,  # a $ in a name is a $
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True)
class Point:
    """What is plotted of one measurement. A line found wrong has no figures.

    `peer` is true of a library's kernel; `ratio` is the rival's time ÷ this one's, with the p20
    and p80 of the rounds' ratios.
    """

    name: str
    peer: bool
    rival: str | None
    taken: str
    gpu: str
    dtype: str
    layout: str
    m: int
    n: int
    k: int
    aligned: bool
    inputs: str
    seed: int
    correct: bool | None
    us: float | None
    tflops: float | None
    ratio: float | None
    ratio_p20: float | None
    ratio_p80: float | None

    @property
    def shape(self) -> str:
        return f"{self.m}×{self.n}×{self.k} {self.layout}"


@dataclass(frozen=True)
class Chart:
    """The points of one picture, all of one GPU and type. `left_out` says what else there was."""

    kind: str
    points: tuple[Point, ...]
    left_out: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every kernel once: our own in the order of their lines, then the peers."""
        ordered = sorted(self.points, key=lambda point: point.peer)
        return tuple(dict.fromkeys(point.name for point in ordered))

    @property
    def styles(self) -> dict[str, tuple[str, str, Any]]:
        return dict(zip(self.names, cycle(_STYLES), strict=False))

    @property
    def rival(self) -> str | None:
        return next((point.rival for point in self.points if point.rival), None)

    @property
    def title(self) -> str:
        first = self.points[0]
        if self.kind == "ladder":
            return f"Throughput of each rung: {first.shape}, {first.dtype}"
        if self.kind == "size":
            return f"Throughput over size: m = n = k, {first.layout}, {first.dtype}"
        shapes = len({point.shape for point in self.points})
        return f"Speed ÷ {self.rival}: {_count(shapes, 'shape')}, {first.dtype}"

    @property
    def facts(self) -> str:
        """GPU, dates and inputs, for below the title."""
        dates = _span(sorted({point.taken[:10] for point in self.points}))
        inputs = ", ".join(dict.fromkeys(point.inputs for point in self.points))
        seeds = _span([str(seed) for seed in sorted({point.seed for point in self.points})])
        return f"{self.points[0].gpu} · {dates} · inputs {inputs}, seed {seeds}"


def gather(
    lines: Iterable[Measurement], kind: str, dtype: str = "bf16", gpu: str | None = None
) -> Chart:
    """The chart of a kind from measurement lines.

    `gpu` is a name or a part of one; without it the GPU measured last. "ladder" is the newest
    run of 4096×4096×4096 nn, or the newest run where that was not measured; "size" and "ratio"
    take the newest line of each kernel and shape.
    Raises: InputError for an unknown kind, and for no lines, naming what there is.
    """
    if kind not in KINDS:
        raise InputError(f"kind={kind!r} is not known; use {', '.join(KINDS)}.")
    found = list(lines)
    chosen = _of_gpu([line for line in found if line.dtype == dtype], gpu)
    if not chosen:
        asked = f"{dtype} on {gpu}" if gpu else dtype
        known = sorted({f"{line.dtype} on {line.gpu}" for line in found})
        there_is = _few(known or ["no measurement at all"])
        raise InputError(f"nothing is measured of {asked}; there is {there_is}.")
    chart = {"ladder": _ladder, "size": _size, "ratio": _ratio}[kind](chosen)
    if not chart.points:
        what = "square shapes (m = n = k)" if kind == "size" else "lines with a rival"
        shapes = _few(dict.fromkeys(_shape(line) for line in chosen))
        raise InputError(f"there are no {what} that were found correct; there is {shapes}.")
    return chart


def _of_gpu(lines: Sequence[Measurement], gpu: str | None) -> list[Measurement]:
    """Lines of one GPU. Raises: InputError for a part of a name that several have."""
    gpu = gpu or max(((line.taken, line.gpu) for line in lines), default=("", ""))[1]
    names = sorted({line.gpu for line in lines})
    fits = [gpu] if gpu in names else [name for name in names if gpu.lower() in name.lower()]
    if len(fits) > 1:
        raise InputError(f"gpu={gpu!r} fits {', '.join(fits)}; name one of them.")
    return [line for line in lines if line.gpu in fits]


def _ladder(lines: Sequence[Measurement]) -> Chart:
    run = newest([line for line in lines if _shape(line) == str(Shape(*ON_GPU))] or lines)
    points = [_point(line) for line in run if _shape(line) == _shape(run[0])]
    return Chart("ladder", tuple(sorted(points, key=lambda point: point.peer)))


def _size(lines: Sequence[Measurement]) -> Chart:
    kept, left_out = _comparable([line for line in lines if line.m == line.n == line.k])
    sizes = {layout: {ln.n for ln in kept if ln.layout == layout} for layout in LAYOUTS}
    layout = max(LAYOUTS, key=lambda name: len(sizes[name]))
    left_out += _note(sum(line.layout != layout for line in kept), "of other layouts")
    points = [_point(line) for line in kept if line.layout == layout]
    return Chart("size", tuple(sorted(points, key=lambda point: point.n)), tuple(left_out))


def _ratio(lines: Sequence[Measurement]) -> Chart:
    kept, left_out = _comparable(
        [line for line in lines if line.ratio is not None and line.name != line.rival]
    )
    rival = _commonest(line.rival for line in kept)
    left_out += _note(sum(line.rival != rival for line in kept), f"with another rival than {rival}")
    points = tuple(_point(line) for line in kept if line.rival == rival)
    return Chart("ratio", points, tuple(left_out))


def _comparable(lines: Sequence[Measurement]) -> tuple[list[Measurement], list[str]]:
    """The newest line of each kernel and shape, on the inputs that most have, found correct."""
    inputs = _commonest(line.inputs for line in lines)
    alike = [line for line in lines if line.inputs == inputs]
    last: dict[tuple[str, str], Measurement] = {}
    for line in alike:
        key = (line.name, _shape(line))
        if key not in last or line.taken >= last[key].taken:
            last[key] = line
    kept = [line for line in last.values() if line.correct is not False]
    others = _note(len(lines) - len(alike), f"on other inputs than {inputs}")
    return kept, others + _note(len(last) - len(kept), "found wrong")


def _point(line: Measurement) -> Point:
    same: dict[str, Any] = {field.name: getattr(line, field.name, None) for field in fields(Point)}
    if line.correct is False:
        same |= {"us": None, "tflops": None, "ratio": None}
    elif len(line.us_samples) == len(theirs := line.rival_us_samples or ()):
        rounds = [b / a for a, b in zip(line.us_samples, theirs, strict=True)]
        same |= {"ratio_p20": quantile(rounds, 0.2), "ratio_p80": quantile(rounds, 0.8)}
    aligned = Shape(line.m, line.n, line.k, line.layout).aligned
    return Point(**same | {"peer": line.source_hash is None, "aligned": aligned})


def _shape(line: Measurement) -> str:
    return str(Shape(line.m, line.n, line.k, line.layout))


def _commonest(values: Iterable[str | None]) -> str | None:
    return next((value for value, _ in Counter(values).most_common(1)), None)


def _few(words: Iterable[str]) -> str:
    known = list(words)
    return ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")


def _span(ordered: Sequence[str]) -> str:
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def _note(number: int, what: str) -> list[str]:
    return [f"{_count(number, 'line')} {what}"] if number else []


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def draw(chart: Chart, suffix: str) -> bytes:
    """The picture as a PNG or SVG file's bytes (`suffix` is ".png" or ".svg").

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
    drawers = {"ladder": _draw_ladder, "size": _draw_size, "ratio": _draw_ratio}
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the user's own style is
        matplotlib.rcParams.update(_RC)
        figure = figures.Figure(layout="constrained", facecolor="white")
        drawers[chart.kind](figure, chart)
        file = io.BytesIO()
        no_date = {"Date": None, "Creator": None} if suffix == ".svg" else {"Software": None}
        figure.savefig(file, format=suffix[1:], dpi=150, metadata=no_date)
    return file.getvalue()


def _head(figure: Any, chart: Chart, note: str = "") -> None:
    """Title and facts, left above everything."""
    figure.suptitle(chart.title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=_INK)
    facts = chart.facts + (f"\n{note}" if note else "")
    figure.axes[0].set_title(facts, loc="left", fontsize=9, color="#444444", pad=10)


def _draw_ladder(figure: Any, chart: Chart) -> None:
    points = chart.points
    figure.set_size_inches(8.6, 1.5 + 0.44 * len(points))
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
    figure.set_size_inches(8.6, 5.2)
    axes = figure.subplots()
    sizes = sorted({point.n for point in chart.points})
    top = max(point.tflops or 0 for point in chart.points) * 1.08
    ends: dict[str, tuple[float, float]] = {}
    for name, (color, mark, dash) in chart.styles.items():
        ours = [(pt.n, pt.tflops or 0) for pt in chart.points if pt.name == name]
        axes.plot(*zip(*ours, strict=True), color=color, marker=mark, linestyle=dash, ms=5.5)
        ends[name] = ours[-1]
    axes.set_xscale("log", base=2)
    beside = sizes[-1] * (max(sizes[-1] / sizes[0], 2) ** 0.05)
    for name, height in _apart({name: end[1] for name, end in ends.items()}, top / 19).items():
        thread = {
            "arrowstyle": "-",
            "color": chart.styles[name][0],
            "lw": 0.7,
            "shrinkA": 2,
            "shrinkB": 5,
        }
        axes.annotate(
            name, ends[name], (beside, height), va="center", color=_INK, fontsize=9,
            arrowprops=thread, annotation_clip=False,
        )  # fmt: skip
    axes.minorticks_off()
    axes.set_xticks(_readable(sizes), [str(n) for n in _readable(sizes)])
    axes.set_ylim(0, top)
    axes.grid(axis="y", color="#E5E5E5", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel("n = m = k")
    axes.set_ylabel("TFLOP/s")
    _head(figure, chart)


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
    step = max(0.3, 0.08 * len(chart.names))
    figure.set_size_inches(8.6, 2.2 + step * sum(rows) + 0.6 * len(panels))
    ratios = [count + 0.8 for count in rows]
    panes = figure.subplots(len(panels), sharex=True, squeeze=False, height_ratios=ratios)
    handles: dict[str, Any] = {}
    for axes, points in zip(panes[:, 0], panels, strict=True):
        handles |= _draw_panel(axes, chart, points)
    _ratio_axis(panes[-1, 0], chart)
    _head(figure, chart, "median over the rounds, whiskers from p20 to p80")
    figure.legend(
        [handles[name] for name in chart.names], chart.names, loc="outside lower center",
        ncols=min(5, len(chart.names)), frameon=False, fontsize=9,
    )  # fmt: skip


def _draw_panel(axes: Any, chart: Chart, points: Sequence[Point]) -> dict[str, Any]:
    """One panel, a row a shape, the kernels of a row under each other; handles by name."""
    shapes = list(dict.fromkeys(point.shape for point in points))
    count, handles = len(chart.names), {}
    for place, (name, (color, mark, _)) in enumerate(chart.styles.items()):
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
    axes.axvline(1, color=_INK, linewidth=1)
    axes.set_yticks(range(len(shapes)), shapes, fontsize=9)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(shapes) - 0.5, -0.5)
    words = f"{'every row a' if points[0].aligned else 'some rows no'} multiple of 16 bytes"
    axes.set_title(words, loc="right", fontsize=9, style="italic", color=_INK)
    return handles


def _ratio_axis(axes: Any, chart: Chart) -> None:
    points = chart.points
    edges = [edge for pt in points for edge in (pt.ratio, pt.ratio_p20, pt.ratio_p80) if edge]
    low, high = min(1, *edges) / 1.12, max(1, *edges) * 1.12
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.minorticks_off()
    shown = [tick for tick in _TICKS if low <= tick <= high]
    axes.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axes.set_xlabel(f"speed ÷ {chart.rival}; above 1 is faster than {chart.rival}")
