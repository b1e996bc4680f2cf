"""Drawing: whole pictures, the same file each time; the ladder."""

from __future__ import annotations

import importlib
import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tilewright.bench.chart_files import read
from tilewright.bench.charts import KINDS, gather
from tilewright.bench.plot import describe, draw, draw_ladder
from tilewright.bench.plot_parts import looks
from tilewright.bench.record import Measurement
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


@pytest.mark.parametrize("kind", ["ladder", "ratio", "roofline"])
def test_the_pictures_in_the_docs_show_the_measurements(kind: str) -> None:
    lines, _ = read(ROOT / "measurements", kind)
    chart = gather(lines, kind)
    renew = f"tilewright plot measurements --kind {kind} --out docs/{kind}.svg"
    found = metadata((ROOT / "docs" / f"{kind}.svg").read_bytes())
    assert found == (chart.alt, describe(chart)), f"docs/{kind}.svg is stale; renew it: {renew}"
    if kind != "ladder":  # that one is in the README
        guide = (ROOT / "docs" / "measuring.md").read_text(encoding="utf-8")
        assert re.search(rf"\({kind}\.svg\)\n\n`{re.escape(renew)}`", guide)


def test_the_words_of_a_ladder_stand_before_the_rivals_line() -> None:
    """At 0.88× they would be struck through by it."""
    figures = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    close = replace(OURS, us=220.0, ratio=0.88)
    figure = figures.Figure(layout="constrained")
    draw_ladder(figure, gather([close, TORCH], "ladder"))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    (line,) = (line for line in axes.lines if line.get_linestyle() == "--")
    words = next(text for text in axes.texts if "0.88×" in text.get_text())
    at_line = axes.transData.transform((line.get_xdata()[0], 0))[0]
    box = words.get_bbox_patch().get_window_extent()
    assert box.x0 < at_line < box.x1, "the test needs words across the line"
    assert words.get_bbox_patch().get_facecolor() == (1, 1, 1, 1)
    assert words.get_zorder() > line.get_zorder()
    note = " ".join(axes.get_title(loc="left").split())
    assert "speed ÷ torch (dashed), the median of the ratios within each round" in note
    assert "it is not the quotient of the median TFLOP/s" in note


def test_a_ladders_bars_have_the_kernels_colours_and_libraries_are_hollow() -> None:
    figures = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")
    from matplotlib.colors import to_hex

    chart = gather([OURS, NAIVE, TORCH], "ladder")
    figure = figures.Figure()
    draw_ladder(figure, chart)
    known = looks(chart)
    for name, bar in zip(chart.names, figure.axes[0].patches, strict=True):
        assert to_hex(bar.get_edgecolor()) == known[name]["color"].lower()
        assert (to_hex(bar.get_facecolor()) == "#ffffff") == (name == "torch")
