"""What the pictures share: fixed marks, legends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tilewright.bench import plot_parts
from tilewright.bench.charts import KINDS, Chart, gather
from tilewright.bench.peers import PEERS
from tilewright.bench.plot import draw
from tilewright.bench.plot_parts import KNOWN, looks, styles
from tilewright.bench.plot_ratio import draw_ratio
from tilewright.bench.plot_roofline import draw_roofline
from tilewright.bench.plot_size import draw_size
from tilewright.bench.record import Measurement
from tilewright.ladder.rungs import RUNGS

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


def test_a_known_kernel_has_one_style_whatever_is_beside_it() -> None:
    alone = {name: styles([name])[name] for name in (*KNOWN, *RUNGS)}
    crowd = styles(["zz", *reversed(KNOWN), "aa"])
    assert {name: crowd[name] for name in alone} == alone
    assert set(PEERS) <= set(KNOWN)


def test_the_others_take_what_remains_in_the_order_of_their_names() -> None:
    known = styles(["mine", "also mine"])
    assert known == styles(["also mine", "mine"])
    assert list(known)[-2:] == ["also mine", "mine"]
    assert len({(color, mark) for color, mark, _ in known.values()}) == len(known)


def test_many_kernels_can_be_told_apart() -> None:
    """By colour and mark alone where no lines are drawn; 7 in a row share nothing at all."""
    known = list(styles(f"k{place:02}" for place in range(98 - len(styles([])))).values())
    assert len({(color, mark) for color, mark, _ in known}) == len(known) == 98
    for part in (known[:49], known[49:]):
        assert len({(color, dash) for color, _, dash in part}) == 49
    assert [len(set(column)) for column in zip(*known[:7], strict=True)] == [7, 7, 7]
    assert len(set(plot_parts.MARKS)) == 14
    for kept in (plot_parts.COLORS, plot_parts.DASHES):
        assert len(set(kept)) == 7


def test_a_kernel_looks_the_same_in_every_kind() -> None:
    """Also one that is not known, though another kernel is in some of the pictures only."""
    mine = [replace(at(OURS, n, n, n), name="mine") for n in (512, 4096)]
    other = replace(at(OURS, 512, 256, 128), name="an earlier name", taken=TORCH.taken)
    lines = [TORCH, OURS, *mine, other]
    seen = [looks(gather(lines, kind)) for kind in KINDS]
    assert "an earlier name" not in seen[0]
    for name in ("torch", "hgemm_bcf", "mine"):
        assert len({str(look[name]) for look in seen if name in look}) == 1
    assert seen[0]["torch"]["markerfacecolor"] == "none"
    assert seen[0]["mine"]["markerfacecolor"] == seen[0]["mine"]["color"]


@pytest.mark.parametrize("kind", ["size", "ratio", "roofline"])
def test_a_picture_of_many_kernels_draws_each_in_its_style(kind: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    many = [
        replace(at(OURS, n, n, n), name=f"kernel_{place}", us=400.0 + place, ratio=0.5 + place / 99)
        for place in range(24)
        for n in (512, 4096)
    ]
    chart = gather(many, kind)
    assert len(chart.names) == 24
    picture = draw(chart, ".svg").decode().upper()
    assert all(color in picture for color in plot_parts.COLORS[1:])


@pytest.mark.parametrize("drawer", [draw_size, draw_ratio, draw_roofline])
def test_the_legend_names_all_and_fits_the_picture(drawer: Callable[[Any, Chart], None]) -> None:
    figures = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    many = [replace(OURS, name=f"hgemm_with_a_long_name_{place}") for place in range(12)]
    figure = figures.Figure(layout="constrained")
    drawer(figure, gather(many, drawer.__name__.removeprefix("draw_")))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [line.name for line in many]
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
    assert 0 <= box.y0 < box.y1 < figure.bbox.height / 2
    below = figure.axes[-1].xaxis.label.get_window_extent()
    assert box.y1 <= below.y0 + 1, "the legend lies over the axis' name"
