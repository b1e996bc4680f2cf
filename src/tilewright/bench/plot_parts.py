"""What all pictures share: sizes, inks, the mark of each kernel, the title and the legend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ladder.rungs import RUNGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tilewright.bench.charts import Chart, Point

WIDTH = 8.6  # inches
INK, PALE, BAND, GRID = "#222222", "#F6F6F6", "#C4C4C4", "#E5E5E5"
NEAR = (0.85, 1.25)  # the ratios among which libraries differ

# Okabe and Ito's colours, dark and light in turn.
COLORS = ("#000000", "#D55E00", "#0072B2", "#CC79A7", "#009E73", "#E69F00", "#56B4E9")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", "p", ">", "d", "*", "h", "8")
_ROW = len(COLORS)
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))

# A kernel's place gives its colour and mark: new names go to the end, so that none changes.
KNOWN = (
    "hgemm_naive", "hgemm_bcf", "hgemm_bcf_dbf", "hgemm_bcf_dbf_rw",
    "torch", "hgemm_cublas", "lt_first", "lt_best",
    "inductor", "inductor_triton", "quack", "cute",
    "sgemm_naive", "sgemm_coalesced", "sgemm_shared", "sgemm_register", "sgemm_tiling",
    "sgemm_at_tiling", "sgemm_at_bcf_swizzling", "sgemm_at_bcf_swizzling_rw",
    "sgemm_at_bcf_swizzling_dbf_rw", "sgemm_best", "sgemm_cublas",
    "hgemm_raster", "hgemm_k_stages", "hgemm_bk64", "hgemm_w64", "hgemm_best",
    "triton_basic", "triton_autotune", "triton_persistent", "triton",
    "cpu_loops", "cpu_blocked", "cpu_blas",
)  # fmt: skip


def styles(names: Iterable[str]) -> dict[str, tuple[str, str, Any]]:
    """Colour, mark and dash of each kernel: of a known one always the same.

    The others take the places behind, in the order of their names. No two of 7 places in a row
    share any of the three. Of 98, no two share both colour and mark, of 49 neither colour and
    dash: where no lines are drawn, marks must do.
    """
    fixed = tuple(dict.fromkeys((*KNOWN, *RUNGS)))
    found = {}
    for place, name in enumerate((*fixed, *sorted(set(names) - set(fixed)))):
        turn, color = divmod(place, _ROW)
        mark, dash = (color + turn) % _ROW, (color + 2 * turn) % _ROW
        found[name] = (COLORS[color], MARKS[turn // _ROW % 2 * _ROW + mark], DASHES[dash])
    return found


def looks(chart: Chart) -> dict[str, dict[str, Any]]:
    """What matplotlib draws each kernel's marks and lines with; libraries' marks are hollow."""
    known = styles((*chart.measured, *chart.names))
    return {
        name: {
            "color": known[name][0],
            "marker": known[name][1],
            "linestyle": known[name][2],
            "markerfacecolor": "none" if name in chart.peers else known[name][0],
            "markeredgecolor": known[name][0] if name in chart.peers else "white",
            "markeredgewidth": 1.2 if name in chart.peers else 0.5,
        }
        for name in chart.names
    }


def head(figure: Any, chart: Chart, *notes: str) -> None:
    """Title and facts, left above everything; a line for each note that says something."""
    figure.suptitle(chart.title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    facts = "\n".join(filter(None, (chart.facts, *notes)))
    figure.axes[0].set_title(facts, loc="left", fontsize=9, color="#444444", pad=10)


def noise_note(chart: Chart) -> str:
    known = any(chart.band(point.shape) for point in chart.noise)
    return f"grey: {chart.rival} timed against itself at the same shape" if known else ""


def libraries_note(chart: Chart) -> str:
    return "hollow: libraries" if chart.peers else ""


def legend(figure: Any, chart: Chart, handles: Mapping[str, Any]) -> None:
    """Every kernel's mark, below everything, in rows as even as can be that fit the width."""
    count, longest = len(chart.names), max(map(len, chart.names))
    fit = min(6, max(1, int(WIDTH / (0.6 + 0.08 * longest))))
    figure.legend(
        [handles[name] for name in chart.names], chart.names, loc="outside lower center",
        ncols=-(-count // -(-count // fit)), frameon=False, fontsize=9,
    )  # fmt: skip


def whiskers(points: Sequence[Point]) -> list[list[float]]:
    """How far p20 and p80 are below and above the ratio of each point, as errorbar wants it."""
    return [
        [max(0, (pt.ratio or 0) - (pt.ratio_p20 or pt.ratio or 0)) for pt in points],
        [max(0, (pt.ratio_p80 or pt.ratio or 0) - (pt.ratio or 0)) for pt in points],
    ]
