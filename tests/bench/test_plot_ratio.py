"""The picture of ratios: groups, rows, the noise of each, the close view."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tilewright.bench.charts import gather
from tilewright.bench.plot_parts import BAND, NEAR, noise_note
from tilewright.bench.plot_ratio import draw_ratio, groups, lay_out
from tilewright.bench.record import Measurement
from tilewright.bench.suites import suites

TORCH = Measurement(
    taken="2026-12-01T09:30:00Z", name="torch", source_hash=None, m=4096, n=4096, k=4096,
    layout="nn", dtype="bf16", inputs="normal(0, 1)", seed=0, us=200.0,
    us_samples=(198.0, 200.0, 202.0), rival="torch", rival_version="2.11.0", rival_us=200.0,
    rival_us_samples=(198.0, 200.0, 202.0), ratio=1.0, correct=True, rel_error=1.6e-3,
    method="graph replay", gpu="NVIDIA H200", driver="580.159.03", cuda="13.0", sm_mhz=1980,
    power_w=None, temperature_c=None, host="Linux x86_64, 16 cores, Python 3.12.3",
)  # fmt: skip
OURS = replace(
    TORCH, name="hgemm_bcf", source_hash="0" * 16, us=400.0, us_samples=(396.0, 400.0, 505.0),
    ratio=0.5,
)  # fmt: skip
NAIVE = replace(OURS, name="hgemm_naive", us=800.0, us_samples=(800.0,) * 3, ratio=0.25)


def at(line: Measurement, m: int, n: int, k: int, **more: Any) -> Measurement:
    return replace(line, m=m, n=n, k=k, **more)


def again(line: Measurement, *samples: float) -> Measurement:
    return replace(line, name="torch again", us_samples=samples)


def test_rows_are_grouped_by_suite_in_its_order() -> None:
    shapes = [(512, 4096, 128), (1, 28672, 4096), (1, 4096, 4096), (512, 512, 512), (256,) * 3]
    lines = [at(OURS, *shape, layout="nt" if shape[0] == 1 else "nn") for shape in shapes]
    assert groups(gather(lines, "ratio").points) == {
        "square": ["256×256×256 nn", "512×512×512 nn"],
        "decode": ["1×4096×4096 nt", "1×28672×4096 nt"],
        "other shapes": ["512×4096×128 nn"],
    }


def test_every_suite_keeps_its_order_and_unaligned_rows_stand_apart() -> None:
    every = {
        f"{shape.m}×{shape.n}×{shape.k} {shape.layout}": shape
        for known in suites().values()
        for shape in known
    }
    lines = [at(OURS, sh.m, sh.n, sh.k, layout=sh.layout) for sh in reversed(every.values())]
    found = groups([*gather(lines, "ratio").points])
    assert list(found) == [*suites(), "odd, rows no multiple of 16 bytes"]
    for heading, shapes in found.items():
        aligned = "multiple" not in heading
        known = suites()[heading.split(",")[0]]
        wanted = [str(every[shape]) for shape in shapes]
        assert wanted == [str(shape) for shape in known if shape.aligned == aligned]


def test_marks_of_a_row_near_each_other_have_lanes_of_their_own() -> None:
    peers = [replace(TORCH, name=f"peer{place}", ratio=1 + place / 100) for place in range(5)]
    small = [at(OURS, 512, 512, 512), at(NAIVE, 512, 512, 512)]
    headings, rows, lanes = lay_out(gather([OURS, NAIVE, *peers, *small], "ratio"))
    assert [(heading, top) for heading, top in headings] == [("square", 0)]
    assert [row.shape for row in rows] == ["512×512×512 nn", "4096×4096×4096 nn"]
    assert rows[0].top + rows[0].height == rows[1].top
    assert rows[1].top + rows[1].height == lanes
    assert rows[1].height > rows[0].height
    assert [point.name for point in rows[1].points[:5]] == [f"peer{place}" for place in range(5)]
    assert all(b - a == pytest.approx(1) for a, b in pairwise(rows[1].at[:5]))
    assert all(row.top < lane < row.top + row.height for row in rows for lane in row.at)


def panels(lines: list[Measurement]) -> Any:
    figures = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    figure = figures.Figure(layout="constrained")
    draw_ratio(figure, gather(lines, "ratio"))
    figure.draw_without_rendering()
    return figure


LIBRARY = replace(TORCH, name="lt_best", ratio=1.05, us_samples=(190.0, 190.5, 191.0))


def test_beside_all_ratios_is_a_close_view_of_those_near_one() -> None:
    whole, close = panels([OURS, LIBRARY]).axes
    assert (whole.get_xscale(), close.get_xscale()) == ("log", "linear")
    assert close.get_xlim() == NEAR

    def shown(axes: Any) -> list[float]:
        return sorted(x for line in axes.lines if line.get_marker() not in ("None", "|")
                      for x in line.get_xdata())  # fmt: skip

    assert shown(whole) == [0.5, 1.05]
    assert shown(close) == [1.05]


@pytest.mark.parametrize(("line", "scale"), [(OURS, "log"), (LIBRARY, "linear")])
def test_a_view_with_nothing_of_its_own_is_left_out(line: Measurement, scale: str) -> None:
    (axes,) = panels([line]).axes
    assert axes.get_xscale() == scale
    assert axes.get_xlabel() == "speed ÷ torch; above 1 is faster than torch"


def bands(axes: Any) -> list[tuple[float, float]]:
    """From where to where each grey band goes, from the upper to the lower."""
    from matplotlib.colors import to_hex

    filled = [it for it in axes.collections if len(it.get_facecolor())]
    grey = [it for it in filled if to_hex(it.get_facecolor()[0]) == BAND.lower()]
    ends = [it.get_paths()[0].get_extents() for it in grey]
    return [(box.x0, box.x1) for box in sorted(ends, key=lambda box: float(box.y0))]


def test_every_row_has_the_noise_of_its_own_shape() -> None:
    quiet, loud, unknown = (at(OURS, n, n, n) for n in (512, 1024, 2048))
    twice = [
        again(at(TORCH, 512, 512, 512), 198.0, 200.0, 202.0),
        again(at(TORCH, 1024, 1024, 1024), 180.0, 200.0, 220.0),
    ]
    lines = [quiet, loud, unknown, LIBRARY, *twice]
    for axes in panels(lines).axes:
        narrow, wide = bands(axes)
        assert narrow == pytest.approx((1, 1))
        assert wide == pytest.approx((1 - 0.6 * 18 / 220, 1 + 0.6 * 0.1))
    assert noise_note(gather(lines, "ratio")) == (
        "grey: torch timed against itself at the same shape"
    )
    assert bands(panels([quiet, LIBRARY]).axes[0]) == []
    assert noise_note(gather([quiet, LIBRARY], "ratio")) == ""
