"""Pictures of charts with matplotlib, the same bytes for the same chart: PNG or SVG.

Marks differ in shape and lightness, so that grey print and colour-blind eyes lose nothing.
"""

from __future__ import annotations

import importlib
import io
from typing import TYPE_CHECKING, Any

from tilewright.bench.plot_parts import INK, WIDTH, head, libraries_note, looks
from tilewright.bench.plot_ratio import draw_ratio
from tilewright.bench.plot_roofline import draw_roofline
from tilewright.bench.plot_size import draw_size
from tilewright.errors import InputError, ToolchainError

if TYPE_CHECKING:
    from tilewright.bench.charts import Chart

FORMATS = (".png", ".svg")
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
        "ladder": draw_ladder,
        "size": draw_size,
        "ratio": draw_ratio,
        "roofline": draw_roofline,
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


def draw_ladder(figure: Any, chart: Chart) -> None:
    """A bar a kernel, its figures behind it; the rival's dashed line passes behind the words."""
    points, known = chart.points, looks(chart)
    figure.set_size_inches(WIDTH, 1.7 + 0.44 * len(points))
    axes = figure.subplots()
    longest = max((point.tflops or 0 for point in points), default=0) or 1
    for row, point in enumerate(points):
        color = known[point.name]["color"]
        width = point.tflops or 0
        words = f"{width:.0f}" if width else "wrong result"
        words += f"  {point.ratio:.2f}×" if point.ratio else ""
        axes.barh(
            row, width, height=0.64, color="white" if point.peer else color, edgecolor=color,
            linewidth=1.6,
        )  # fmt: skip
        axes.text(
            width + longest * 0.014, row, words, va="center", color=INK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
        )  # fmt: skip
        if point.name == chart.rival and width:
            axes.axvline(width, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
    axes.set_yticks(range(len(points)), [point.name for point in points])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(points) - 0.45, -0.55)
    axes.set_xlim(0, longest * 1.22)
    axes.set_xlabel("TFLOP/s, from the median time of the rounds")
    head(figure, chart, *_ladder_notes(chart))


def _ladder_notes(chart: Chart) -> list[str]:
    if not chart.rival:
        return [libraries_note(chart)]
    return [
        f"×: speed ÷ {chart.rival} (dashed), the median of the ratios within each round; "
        "as clocks drift",
        "from round to round, it is not the quotient of the median TFLOP/s"
        f"{' · hollow: libraries' if chart.peers else ''}",
    ]
