"""What is claimed is what was measured, on the code as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.bench.record import PIPE, Measurement, load
from tilewright.bench.report import fullest, render
from tilewright.bench.rung_code import hash_of
from tilewright.ladder.rung import Rung
from tilewright.ladder.rungs import RUNGS, select

ROOT = Path(__file__).parent.parent
LINES = load(ROOT / "measurements")


FILES = sorted((ROOT / "measurements").rglob("*.jsonl"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_line_is_valid_and_right(path: Path) -> None:
    lines = load(path)
    assert lines
    assert all(line.correct or line.is_roof for line in lines)


def test_there_are_lines_of_pipes() -> None:
    """Which are no kernels and in no table; tests/bench/test_rates.py says what they must give."""
    lines = load(ROOT / "measurements" / "pipes" / "h200.jsonl")
    assert all(line.is_roof and line.gpu == "NVIDIA H200" for line in lines)
    assert all(line.name.startswith(PIPE) and line.sm_mhz for line in lines)


MEASURED = [rung for rung in RUNGS.values() if any(line.name == rung.name for line in LINES)]


HGEMM = {rung.name for rung in select("hgemm")}


def newest(name: str) -> Measurement:
    return max((line for line in LINES if line.name == name), key=lambda line: line.taken)


def test_the_readme_shows_the_measurements() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert render(readme, LINES) == readme


def found(rung: Rung) -> str:
    """What the header says was found."""
    match = re.search(r"^(//|#) Found +(.*?)\n\1 Next", rung.text, re.S | re.M)
    assert match is not None
    return re.sub(rf"\n{match[1]} +", " ", match[2])


@pytest.mark.parametrize("rung", MEASURED, ids=lambda rung: rung.name)
def test_the_newest_measurement_is_of_this_code(rung: Rung) -> None:
    """A change of the code, not of a comment, makes its measurement stale: measure again."""
    assert newest(rung.name).source_hash == hash_of(rung)
    assert newest(rung.name).correct


@pytest.mark.parametrize("rung", RUNGS.values(), ids=lambda rung: rung.name)
def test_a_rung_that_was_not_timed_says_so(rung: Rung) -> None:
    """And tells no time. Which rungs were timed is what the records say."""
    said = found(rung)
    assert ("Not timed yet." in said) == (rung not in MEASURED)
    assert rung in MEASURED or not re.search(r"µs|FLOP/s|of torch", said)


@pytest.mark.parametrize("rung", MEASURED, ids=lambda rung: rung.name)
def test_what_was_found_names_its_measurement(rung: Rung) -> None:
    """`Found` quotes figures of one line, by its moment."""
    said = found(rung)
    (taken,) = re.findall(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", said)
    (line,) = (line for line in LINES if line.taken == taken and line.name == rung.name)
    (us,) = re.findall(r"([\d,.]+) µs", said)
    if line.gpu is None:  # the host's: no rival, and too slow for this unit
        assert us == f"{line.us:,.1f}"
        return
    (tflops,) = re.findall(r"([\d.]+) TFLOP/s", said)
    ratios = re.findall(r"([\d.]+) of torch", said)
    assert us == f"{line.us:,.1f}"
    assert tflops == f"{line.tflops:.1f}"
    assert ratios == ([] if line.rival is None else [f"{line.ratio:.2f}"])


def test_hgemm_was_measured() -> None:
    assert {rung.name for rung in MEASURED} >= HGEMM


def test_the_ladder_goes_up() -> None:
    """On the H200 each rung is faster than the one before, but for hgemm_raster, a contrast."""
    run = fullest([line for line in LINES if line.dtype == "bf16" and line.name in HGEMM])
    ratios = {line.name: line.ratio or 0 for line in run}
    names = [rung.name for rung in select("hgemm") if rung.name != "hgemm_raster"]
    assert [ratios[name] for name in names] == sorted(ratios[name] for name in names)
    assert ratios["hgemm_bcf_dbf_rw"] >= 0.44
    assert ratios["hgemm_best"] >= 0.65
