"""The roofline: its roofs, its ticks, and what lies below it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tilewright.bench.charts import Ceiling, gather
from tilewright.bench.plot_roofline import decades, draw_roofline, far_below
from tilewright.bench.record import Measurement

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


def test_the_roofs_carry_their_figures_and_meet_at_the_ridge() -> None:
    figures = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    figure = figures.Figure()
    measured = Ceiling(4380.4, 640.0, "2026-12-01T00:00:00Z")
    draw_roofline(figure, replace(gather([OURS, TORCH], "roofline"), roofs=measured))
    (axes,) = figure.axes
    assert {text.get_text() for text in axes.texts} == {
        "4,380 GB/s, measured", "640 TFLOP/s, measured", "ridge: 146 FLOP/byte",
    }  # fmt: skip
    roof = axes.lines[0]
    assert roof.get_xdata()[1] == pytest.approx(640e3 / 4380.4)
    assert roof.get_ydata() == pytest.approx([roof.get_xdata()[0] * 4.3804, 640.0, 640.0])
    assert "roofs measured 2026-12-01" in axes.get_title(loc="left")
    assert "hollow: libraries" in axes.get_title(loc="left")
    hollow = [line.get_markerfacecolor() == "none" for line in axes.lines[-2:]]
    assert hollow == [False, True]


def test_logarithmic_ticks_are_few_and_within() -> None:
    assert decades(0.9, 2500) == [1, 10, 100, 1000]
    assert decades(45, 1100) == [50, 100, 200, 500, 1000]
    assert decades(2, 9000) == [10, 100, 1000]


TINY = [at(TORCH, 33, 3, 431, us=us, name=name) for us, name in ((5.0, "torch"), (4.0, "lt_best"))]
MANY = [at(OURS, n, n, n, us=n**3 / 1e7, name=f"k{n}") for n in range(1024, 4096, 128)]


def test_few_points_a_decade_below_all_others_are_left_below() -> None:
    points = gather([*TINY, *MANY], "roofline").points
    assert {point.shape for point in far_below(points)} == {"33×3×431 nn"}
    assert far_below(gather(MANY, "roofline").points) == []
    assert far_below(gather([*TINY, *MANY[:4]], "roofline").points) == []  # not few
    assert far_below(gather(TINY, "roofline").points) == []


def test_an_arrow_names_what_is_below() -> None:
    figures = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    drawn: list[Any] = []
    for lines in (MANY, [*TINY, *MANY]):
        figure = figures.Figure(layout="constrained")
        draw_roofline(figure, gather(lines, "roofline"))
        drawn.append(figure.axes[0])
    bare, clipped = drawn
    assert clipped.get_ylim() == bare.get_ylim()
    tflops = 2 * 33 * 3 * 431 / 4e6
    (arrow,) = (it for it in clipped.texts if hasattr(it, "arrow_patch"))
    assert arrow.get_text() == f"33×3×431 nn: {tflops:.2g} TFLOP/s"
    assert arrow.xy[1] == clipped.get_ylim()[0]
    assert "arrow: a shape below the picture" in clipped.get_title(loc="left")
    assert "arrow" not in bare.get_title(loc="left")
    assert {it.get_text() for it in clipped.figure.legends[0].get_texts()} > {"torch", "lt_best"}
