"""The figures that the models reckon with: what was measured of them, and that the page has all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.bench.pipes import PIPES, measured
from tilewright.bench.record import PIPE, Measurement, load
from tilewright.errors import InputError
from tilewright.gpus import gpu_named, gpu_reported
from tilewright.model import rates
from tilewright.model.rates import A_CLOCK, Rate

ROOT = Path(__file__).parents[2]
CLOSE = 0.15  # a rate that the newest record puts further off is to be changed
H200 = [
    each for each in load(ROOT / "measurements") if gpu_reported(each.machine) == gpu_named("h200")
]


@pytest.mark.parametrize("rate", [rate for rate in rates.ALL if rate.pipes], ids=lambda r: r.what)
def test_a_rate_is_what_its_pipes_gave(rate: Rate) -> None:
    assert set(rate.pipes) <= {pipe.name for pipe in PIPES}
    found = measured(rate, H200)
    if found is None:
        pytest.skip(f"no line {PIPE}{rate.pipes[0]} in measurements/ yet")
    assert rate.value == pytest.approx(found, rel=CLOSE)


@pytest.mark.parametrize("rate", rates.ALL, ids=lambda rate: rate.what)
def test_the_page_shows_every_rate(rate: Rate) -> None:
    page = (ROOT / "docs" / "limiter.md").read_text(encoding="utf-8")
    assert f"| {rate.what} | {rate.value:g} {rate.unit} | {rate.source}" in page


def line(**given: object) -> Measurement:
    made = Measurement(
        taken="2026-12-01T09:30:00Z", name="", source_hash=None, m=1, n=1, k=1, layout="nn",
        dtype="fp32", inputs="ones", seed=0, us=1.0, us_samples=(1.0,), rival=None,
        rival_version=None, rival_us=None, rival_us_samples=None, ratio=None, correct=None,
        rel_error=None, method="-", gpu="NVIDIA H200", driver="-", cuda="-", sm_mhz=2000,
        power_w=None, temperature_c=None, host="-",
    )  # fmt: skip
    return replace(made, **given)  # type: ignore[arg-type]


def test_a_rate_from_lines() -> None:
    made = [
        line(name="pipe: a", k=100, us=1.0, sm_mhz=2000),
        line(name="pipe: b", k=100, us=2.0, sm_mhz=2000),
        line(name="pipe: tile of 4 KiB", k=1, us=0.2, sm_mhz=2000),
        line(name="pipe: tile of 16 KiB", k=1, us=0.3, sm_mhz=2000),
    ]
    assert measured(Rate("", 0, "clocks", "", ("a",)), made) == 20
    assert measured(Rate("", 0, A_CLOCK, "", ("b",)), made) == 1 / 40
    both = Rate("", 0, A_CLOCK, "", ("tile of 4 KiB", "tile of 16 KiB"))
    assert measured(both, made) == pytest.approx(12 * 1024 / 200)
    with pytest.raises(InputError, match="how many KiB"):
        measured(Rate("", 0, A_CLOCK, "", ("a", "b")), made)
    newer = line(name="pipe: a", taken="2026-12-02T00:00:00Z", k=100, us=3.0, sm_mhz=2000)
    assert measured(Rate("", 0, "clocks", "", ("a",)), [newer, *made]) == 60
    assert measured(Rate("", 0, "clocks", "", ("c",)), made) is None
    assert measured(Rate("", 0, "clocks", ""), made) is None
