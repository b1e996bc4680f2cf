"""Drawing: whole pictures, the same file each time, marks that can be told apart."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tilewright.bench import plot
from tilewright.bench.charts import KINDS, Ceiling, Chart, gather
from tilewright.bench.plot import describe, draw
from tilewright.bench.record import Measurement, load
from tilewright.errors import InputError, ToolchainError

ROOT = Path(__file__).parents[2]

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


def test_labels_keep_apart_and_in_order() -> None:
    heights = plot._apart({"a": 10.0, "b": 10.5, "c": 0.1, "d": 0.0, "e": 50.0}, 4.0)
    assert sorted(heights, key=lambda name: heights[name]) == ["d", "c", "a", "b", "e"]
    ordered = sorted(heights.values())
    assert all(b - a >= 4.0 - 1e-9 for a, b in pairwise(ordered))
    assert ordered[0] >= 0
    assert (heights["a"], heights["e"]) == (10.0, 50.0)


def test_close_sizes_share_a_label_and_powers_of_two_win() -> None:
    assert plot._readable([256, 1000, 1024, 3072, 8192]) == [256, 1024, 3072, 8192]
    assert plot._readable([4096]) == [4096]


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ToolchainError) as error:
        draw(gather([OURS], "ladder"), ".svg")
    assert str(error.value) == (
        "plots need matplotlib (No module named 'matplotlib'): pip install \"tilewright[plot]\"."
    )


def test_other_formats_are_refused() -> None:
    with pytest.raises(InputError, match=r"must be .png or .svg"):
        draw(gather([OURS], "ladder"), ".pdf")


LINES = [
    *(at(line, n, n, n) for n in (256, 1000, 4096) for line in (NAIVE, OURS, TORCH)),
    at(OURS, 129, 257, 65),
    replace(NAIVE, name="broken $x$", correct=False),
    replace(OURS, name="alone", rival=None, rival_us_samples=None, ratio=None),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lines", [LINES, [OURS]], ids=["many", "one"])
def test_pictures_are_whole_and_the_same_twice(kind: str, lines: list[Measurement]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    chart = gather(lines, kind)
    png, svg = draw(chart, ".png"), draw(chart, ".svg")
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert min(width, height) > 200
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert draw(chart, ".svg") == svg
    assert draw(chart, ".png") == png
    assert b"<dc:date>" not in svg


def test_only_wrong_results_still_draw() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert draw(gather([replace(OURS, correct=False)], "ladder"), ".svg")


@pytest.mark.parametrize("kind", ["size", "ratio"])
def test_the_band_is_drawn_and_named_where_there_is_one(kind: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    again = replace(TORCH, name="torch again", us_samples=(200.0, 205.0, 210.0))
    band = plot._BAND.lower().encode()
    lines = [OURS, at(OURS, 512, 512, 512), TORCH, at(TORCH, 512, 512, 512)]
    noted, bare = gather([*lines, again], kind), gather(lines, kind)
    assert band in draw(noted, ".svg").lower()
    assert band not in draw(bare, ".svg").lower()
    assert plot._noise_note(noted) == "grey band: torch timed against itself"
    assert plot._noise_note(bare) == ""


def test_the_roofs_carry_their_figures_and_meet_at_the_ridge() -> None:
    figures = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    figure = figures.Figure()
    measured = Ceiling(4380.4, 640.0, "2026-12-01T00:00:00Z")
    plot._draw_roofline(figure, replace(gather([OURS, TORCH], "roofline"), roofs=measured))
    (axes,) = figure.axes
    assert {text.get_text() for text in axes.texts} == {
        "4,380 GB/s, measured", "640 TFLOP/s, measured", "ridge: 146 FLOP/byte",
    }  # fmt: skip
    roof = axes.lines[0]
    assert roof.get_xdata()[1] == pytest.approx(640e3 / 4380.4)
    assert roof.get_ydata() == pytest.approx([roof.get_xdata()[0] * 4.3804, 640.0, 640.0])
    assert "roofs measured 2026-12-01" in axes.get_title(loc="left")
    assert "hollow marks: libraries" in axes.get_title(loc="left")
    hollow = [line.get_markerfacecolor() == "none" for line in axes.lines[-2:]]
    assert hollow == [False, True]


def test_logarithmic_ticks_are_few_and_within() -> None:
    assert plot._decades(0.9, 2500) == [1, 10, 100, 1000]
    assert plot._decades(45, 1100) == [50, 100, 200, 500, 1000]
    assert plot._decades(2, 9000) == [10, 100, 1000]


def test_many_kernels_can_be_told_apart() -> None:
    """By colour and mark alone where no lines are drawn; few kernels share nothing at all."""
    names = [f"k{place}" for place in range(49)]
    known = plot.styles(names)
    assert list(known) == names
    assert len({(color, mark) for color, mark, _ in known.values()}) == 49
    assert len({(color, dash) for color, _, dash in known.values()}) == 49
    few = list(plot.styles(names[:7]).values())
    assert [len(set(column)) for column in zip(*few, strict=True)] == [7, 7, 7]
    assert len(set(plot._COLORS)) == len(set(plot._MARKS)) == len(set(plot._DASHES)) == 7


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
    assert all(color in picture for color in plot._COLORS[1:])


@pytest.mark.parametrize("drawer", [plot._draw_size, plot._draw_ratio, plot._draw_roofline])
def test_the_legend_names_all_and_fits_the_picture(drawer: Callable[[Any, Chart], None]) -> None:
    figures = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    many = [replace(OURS, name=f"hgemm_with_a_long_name_{place}") for place in range(12)]
    figure = figures.Figure(layout="constrained")
    drawer(figure, gather(many, drawer.__name__.removeprefix("_draw_")))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [line.name for line in many]
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
    assert 0 <= box.y0 < box.y1 < figure.bbox.height / 2


def test_few_lines_are_named_at_their_ends() -> None:
    figures = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    figure = figures.Figure(layout="constrained")
    plot._draw_size(figure, gather([OURS, TORCH, at(OURS, 512, 512, 512)], "size"))
    assert figure.legends == []
    named = {text.get_text(): text.xy for text in figure.axes[0].texts}
    assert set(named) == {"hgemm_bcf", "torch"}
    assert named["torch"] == pytest.approx((4096, TORCH.tflops))


def metadata(svg: bytes) -> tuple[str, str]:
    """Title and description of an SVG."""
    root = ElementTree.fromstring(svg)
    svg_title = root.findtext("{http://www.w3.org/2000/svg}title") or ""
    core = "{http://purl.org/dc/elements/1.1/}"
    return svg_title, next((it.text or "" for it in root.iter(f"{core}description")), "")


def test_a_picture_says_what_it_shows_and_of_which_points() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    chart = gather([OURS, TORCH], "ratio")
    assert metadata(draw(chart, ".svg")) == (
        chart.alt,
        f"tilewright plot ratio, points {chart.digest}",
    )
    assert chart.digest.encode() in draw(chart, ".png")


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("measurements", "ladder"),
        ("measurements/suites/h200-bf16.jsonl", "ratio"),
        ("measurements/suites/h200-bf16.jsonl", "roofline"),
    ],
)
def test_the_pictures_in_the_docs_show_the_measurements(lines: str, kind: str) -> None:
    chart = gather(load(ROOT / lines), kind)
    renew = f"renew it: tilewright plot {lines} --kind {kind} --out docs/{kind}.svg"
    found = metadata((ROOT / "docs" / f"{kind}.svg").read_bytes())
    assert found == (chart.alt, describe(chart)), f"docs/{kind}.svg is stale; {renew}"
