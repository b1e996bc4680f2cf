"""The figures that the models reckon with: what was measured of them, and that the page has all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.bench.includes import code_of
from tilewright.bench.pipes import PIPES, Pipe, figure, measured, pipe_launch
from tilewright.bench.record import PIPE, Measurement, load, source_hash
from tilewright.bench.survey import probe_text
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import InputError
from tilewright.gpus import gpu_named
from tilewright.model import rates
from tilewright.model.machine_words import kernel_words
from tilewright.model.rates import A_CLOCK, Rate
from tilewright.model.replay import pass_clocks, step_code

ROOT = Path(__file__).parents[2]
CLOSE = 0.02  # a rate that the newest record puts further off is to be changed
PIPE_LINES = sorted(
    load(ROOT / "measurements" / "pipes" / "h200.jsonl"), key=lambda line: line.taken
)


@pytest.mark.parametrize("rate", [rate for rate in rates.ALL if rate.pipes], ids=lambda r: r.what)
def test_a_rate_is_what_its_pipes_gave(rate: Rate) -> None:
    assert set(rate.pipes) <= {pipe.name for pipe in PIPES}
    assert measured(rate, PIPE_LINES) == pytest.approx(rate.value, rel=CLOSE)


def played_clocks(pipe: Pipe, gpu: EmulatorEngine) -> float:
    """The clocks of one multiply-add in the machine code of an fma probe, played through."""
    words = gpu.upload(pipe.words())
    out = gpu.empty((pipe.blocks_per_sm * pipe.threads,), np.dtype(np.uint32))
    cubin = pipe_launch(gpu, pipe, words, out, 1).artifact.cubin
    each = pipe.each if pipe.latency else pipe.each // pipe.blocks_per_sm // 32
    code, steps = step_code(kernel_words(cubin, "probe"), each / (pipe.threads // 32))
    clocks = pass_clocks(code, {}, pipe.threads // 32, pipe.blocks_per_sm)
    return clocks / steps / pipe.each


@pytest.mark.usefixtures("compiler")
def test_the_fma_probes_played_through_take_what_they_took() -> None:
    """A launch is in the lines' times, and not in the model's. Without banks a rate would be off
    by 7 to 14 %.
    """
    gpu = EmulatorEngine(gpu_named("h200"))
    lines = {line.name.removeprefix(PIPE): line for line in PIPE_LINES}
    fmas = [pipe for pipe in PIPES if pipe.probe == "fma"]
    assert len(fmas) == 3
    for pipe in fmas:
        took = figure(lines[pipe.name]).clocks
        assert 0.99 * took < played_clocks(pipe, gpu) < took, pipe.name


def test_pipes_were_measured_by_the_present_probes() -> None:
    """A change of a probe's code, not of a comment, makes its lines stale: measure again."""
    newest = {line.name.removeprefix(PIPE): line for line in PIPE_LINES}
    assert newest.keys() == {pipe.name for pipe in PIPES}
    for pipe in PIPES:
        code = source_hash(code_of(probe_text(pipe.probe)))
        assert newest[pipe.name].source_hash == code, pipe.name
    assert all(
        line.k in {pipe.each * pipe.steps for pipe in PIPES if pipe.name == name}
        for name, line in newest.items()
    )


def clocks_of(name: str) -> float:
    return figure({line.name.removeprefix(PIPE): line for line in PIPE_LINES}[name]).clocks


@pytest.mark.parametrize("columns", [128, 256])
def test_tiles_that_arrive_do_not_disturb_the_products(columns: int) -> None:
    """What model.async_step presumes; with 128 columns 96 bytes a clock are read and 58 arrive.
    The step without tiles varies by 4 %, so that the other may be the shorter one.
    """
    plain = f"wgmma step of 128x{columns}x64"
    assert 0.95 * clocks_of(plain) < clocks_of(f"{plain}, tiles arriving") < 1.01 * clocks_of(plain)


def test_half_the_columns_take_half_the_clocks() -> None:
    """So that one rate stands for both."""
    half = clocks_of("wgmma step of 128x128x64, tiles arriving")
    assert 2 * half == pytest.approx(rates.WGMMA_STEP.value, rel=CLOSE)


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
        line(name="pipe: tile of 4 KiB, 1 block", k=1, us=0.2, sm_mhz=2000),
        line(name="pipe: tile of 16 KiB, 1 block", k=1, us=0.3, sm_mhz=2000),
    ]
    assert measured(Rate("", 0, "clocks", "", ("a",)), made) == 20
    assert measured(Rate("", 0, A_CLOCK, "", ("b",)), made) == 1 / 40
    both = Rate("", 0, A_CLOCK, "", ("tile of 4 KiB, 1 block", "tile of 16 KiB, 1 block"))
    assert measured(both, made) == pytest.approx(12 * 1024 / 200)
    twos = [line(name="pipe: tile of 4 KiB, 2 blocks"), *made]
    for names in (("a", "b"), ("tile of 4 KiB, 2 blocks", "tile of 16 KiB, 1 block")):
        with pytest.raises(InputError, match=f"'{names[0]}' must say how many KiB .* 1 block"):
            measured(Rate("", 0, A_CLOCK, "", names), twos)
    longer = Rate("", 0, "clocks", "", ("tile of 4 KiB, 1 block", "tile of 16 KiB, 1 block"))
    assert measured(longer, made) == pytest.approx(200)
    newer = line(name="pipe: a", taken="2026-12-02T00:00:00Z", k=100, us=3.0, sm_mhz=2000)
    assert measured(Rate("", 0, "clocks", "", ("a",)), [newer, *made]) == 60
    assert measured(Rate("", 0, "clocks", "", ("c",)), made) is None
    assert measured(Rate("", 0, "clocks", ""), made) is None
