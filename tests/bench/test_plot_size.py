"""The picture of sizes: lines, single marks, noise at each size, the panel below."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tilewright.bench.charts import gather
from tilewright.bench.plot_parts import BAND
from tilewright.bench.plot_size import draw_size, joined, readable
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


def cube(line: Measurement, n: int, **more: Any) -> Measurement:
    return at(line, n, n, n, **more)


def picture(lines: list[Measurement]) -> Any:
    figures = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    figure = figures.Figure(layout="constrained")
    draw_size(figure, gather(lines, "size"))
    figure.draw_without_rendering()
    return figure


def test_close_sizes_share_a_label_and_powers_of_two_win() -> None:
    assert readable([256, 1000, 1024, 3072, 8192]) == [256, 1024, 3072, 8192]
    assert readable([4096]) == [4096]


def test_lines_join_multiples_of_128_only() -> None:
    assert [size for size in (64, 128, 384, 1000, 1024, 4097) if joined(size)] == [128, 384, 1024]
    figure = picture([cube(OURS, n) for n in (512, 1000, 1024)])
    (axes,) = figure.axes
    by_line = {line.get_linestyle(): list(line.get_xdata()) for line in axes.lines}
    assert by_line == {"None": [1000], "--": [512, 1024]}
    assert "marks on no line: 1000, no multiple of 128" in axes.get_title(loc="left")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["512", "1024"]
    assert "no line" not in picture([OURS]).axes[0].get_title(loc="left")


def test_only_odd_sizes_still_have_ticks_and_a_legend() -> None:
    figure = picture([cube(OURS, 1000), cube(OURS, 100)])
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["100", "1000"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["hgemm_bcf"]


def test_names_are_in_the_legend_and_nowhere_else() -> None:
    figure = picture([OURS, TORCH, cube(OURS, 512)])
    assert not figure.axes[0].texts
    assert [it.get_text() for it in figure.legends[0].get_texts()] == ["hgemm_bcf", "torch"]


def test_libraries_that_overlap_are_apart_in_the_panel_below() -> None:
    near = [replace(TORCH, name=name, ratio=1.01) for name in ("lt_first", "lt_best")]
    figure = picture([OURS, TORCH, *near, cube(OURS, 512), cube(near[0], 1000)])
    above, below = figure.axes
    marks = {
        line.get_marker(): list(line.get_xdata())
        for line in below.lines
        if line.get_marker() not in ("None", "|", "_")
    }
    (first,), (second,) = marks["X"], marks["s"]
    assert first < 4096 < second
    assert below.transData.transform((second, 1))[0] - below.transData.transform((first, 1))[0] > 5
    assert below.get_ylabel() == "speed ÷ torch"
    assert len(picture([OURS, TORCH]).axes) == 1
    assert above.get_shared_x_axes().joined(above, below)


def test_the_noise_is_of_each_size() -> None:
    from matplotlib.colors import to_hex

    again = replace(TORCH, name="torch again")
    lines = [
        TORCH, cube(TORCH, 512), cube(TORCH, 1000), OURS,
        replace(again, us_samples=(198.0, 200.0, 202.0)),
        cube(again, 512, us_samples=(250.0, 250.0, 250.0)),
        cube(again, 1000, us_samples=(190.0, 190.0, 190.0)),
    ]  # fmt: skip
    (axes,) = picture(lines).axes
    bars = {}
    for it in axes.collections:
        box = it.get_paths()[0].get_extents()
        if box.width == 0:
            assert to_hex(it.get_color()[0]) == BAND.lower()
            bars[round(box.x0)] = box.y0, box.y1
    tflops = {n: 2 * n**3 / 200e6 for n in (512, 1000, 4096)}
    assert set(bars) == set(tflops)
    assert bars[4096] == pytest.approx([tflops[4096]] * 2)
    assert bars[512] == pytest.approx((tflops[512] * (198 * 0.6 + 200 * 0.4) / 250, tflops[512]))
    assert bars[1000][0] == pytest.approx(tflops[1000])
    assert bars[1000][1] > tflops[1000]
    (band,) = (it for it in axes.collections if it.get_paths()[0].get_extents().width)
    assert band.get_paths()[0].get_extents().intervalx == pytest.approx((512, 4096))
