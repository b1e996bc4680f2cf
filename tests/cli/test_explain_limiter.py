"""`tilewright explain limiter`: counts that scale, what binds, and the model against an H200."""

from __future__ import annotations

import importlib.util
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tilewright.bench.ladder import climb
from tilewright.bench.record import load
from tilewright.cli.explain_limiter_counts import (
    STEPS,
    Limited,
    counts_of,
    limited,
    one_block,
    scaled,
)
from tilewright.dtypes import dtype_of
from tilewright.errors import UnsupportedError
from tilewright.gpus import gpu_named
from tilewright.ladder.rungs import RUNGS, Rung
from tilewright.problem import Problem

pytestmark = pytest.mark.usefixtures("compiler")

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "limiter_table.py"
MEASURED = ROOT / "measurements"
MOST_WRONG = 0.10  # of a rung's measured time


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("limiter_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def measured_rungs() -> list[Limited]:
    lines = load(MEASURED)
    gpu = gpu_named("h200")
    found = [
        limited(rung, Problem(4096, 4096, 4096, dtype_of(name)), gpu, lines)
        for rung in RUNGS.values()
        if rung.file.endswith(".cu")
        for name in rung.dtypes
    ]
    return [each for each in found if each.measured is not None]


def test_the_page_is_fresh(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0, f"run scripts/{SCRIPT.name}"


def test_a_stale_page_is_told(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(script.PAGE.read_text(encoding="utf-8").replace("**1215**", "**1**", 1))
    monkeypatch.setattr(script, "PAGE", page)
    assert script.main(["--check"]) == 1
    assert script.main([]) == script.main(["--check"]) == 0


def test_the_model_is_near_what_an_h200_took(measured_rungs: list[Limited]) -> None:
    assert {each.rung.name for each in measured_rungs} >= {"hgemm_naive", "hgemm_bcf_dbf_rw"}
    for each in measured_rungs:
        assert each.error is not None
        assert abs(each.error) < MOST_WRONG, (each.rung.name, each.error)


def test_rungs_that_differ_by_more_than_3_percent_are_in_the_measured_order(
    measured_rungs: list[Limited],
) -> None:
    compared = 0
    for one, other in combinations(measured_rungs, 2):
        same = (one.rung.family, one.problem) == (other.rung.family, other.problem)
        assert one.measured is not None
        assert other.measured is not None
        apart = one.measured.us / other.measured.us
        if same and max(apart, 1 / apart) > 1.03:
            compared += 1
            model = one.limits.predicted_us / other.limits.predicted_us
            assert (model > 1) == (apart > 1), (one.rung.name, other.rung.name)
    assert compared >= 5


def test_what_binds_the_first_rungs(explained: Any, shown: Any) -> None:
    words = f"limiter --measured {MEASURED}/h200-hgemm.jsonl"
    rows = {row["rung"]: row for row in explained(words)}
    assert {row["binding"] for row in rows.values()} == {"shared"}
    naive, bcf, dbf = (rows[f"hgemm_{name}"] for name in ("naive", "bcf", "bcf_dbf"))
    # 2240 and 576 wavefronts a K step: 1024 blocks of 128 steps over 132 SMs of 1.83 GHz
    for row, wavefronts in ((naive, 2240), (bcf, 576), (dbf, 576)):
        assert row["shared_us"] == pytest.approx(1024 * 128 * wavefronts / 132 / 1830)
    assert bcf["latency_us"] > 100 * dbf["latency_us"]
    assert naive["fma_us"] == 0
    assert naive["measured_us"] is not None
    assert naive["taken"].startswith("2026-")
    said = " ".join(shown(words).split())
    by_model = f"all together {naive['predicted_us']:,.1f} µs by the model"
    assert f"bound by shared-memory wavefronts; {by_model}" in said


def test_without_measurements_nothing_is_compared(explained: Any) -> None:
    (row,) = explained("limiter hgemm_bcf -m 1024 -n 1024 -k 1024")
    assert (row["measured_us"], row["error"], row["taken"]) == (None, None, None)
    assert row["rates_measured"] is True


def test_another_chip_is_labelled(explained: Any, shown: Any) -> None:
    (row,) = explained("limiter hgemm_bcf --gpu rtx5060")
    assert (row["binding"], row["rates_measured"]) == ("tensor", False)
    assert "for sm_120 they are assumed." in " ".join(
        shown("limiter hgemm_bcf --gpu rtx5060").split()
    )


@pytest.mark.parametrize("name", list(RUNGS))
def test_counts_of_two_depths_give_those_of_a_third(name: str) -> None:
    """Six blocks of 12 K steps, counted as they are and scaled from one block."""
    rung = RUNGS[name]
    tile = rung.tile
    m, n, k = 2 * tile.bm, 3 * tile.bn, 12 * tile.bk
    problem = Problem(m, n, k, dtype_of(rung.dtypes[0]))
    one, two = (counts_of(one_block(rung, problem, gpu_named("h200"), steps)) for steps in STEPS)
    found = scaled(one, two, 12)
    whole = counts_of(climb(rungs=name, m=m, n=n, k=k, engine="emulator", gpu="h200").reports[name])
    for field in ("mma_flops", "fma_issues", "shared_wavefronts", "load_bytes", "store_bytes"):
        assert 6 * getattr(found, field) == getattr(whole, field), field
    assert 6 * found.instructions == pytest.approx(whole.instructions, rel=0.02)
    assert whole.mma_flops in (0, problem.flops)


def test_a_rung_that_the_emulator_cannot_run_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, explained: Any, shown: Any
) -> None:
    def without_naive(rung: Rung, *others: Any) -> Limited:
        if rung.name == "hgemm_naive":
            raise UnsupportedError("wgmma is not modelled.")
        return limited(rung, *others)

    monkeypatch.setattr("tilewright.cli.explain_limiter_counts.limited", without_naive)
    names = [row["rung"] for row in explained("limiter")]
    assert names == ["hgemm_bcf", "hgemm_bcf_dbf", "hgemm_bcf_dbf_rw"]
    assert "\nhgemm_naive: wgmma is not modelled.\n" in shown("limiter")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("hgemm_bfc", "rung='hgemm_bfc' is not known; did you mean hgemm_bcf?"),
        ("hgemm -m 100", "m=100 is not a multiple of 128, as hgemm_naive needs; the nearest"),
        ("--measured /nowhere.jsonl", "/nowhere.jsonl cannot be read:"),
        ("--gpu b200", "gpu='b200' is not in the table; did you mean h200?"),
        ("--dtype fp32", "hgemm_naive takes bf16 or fp16, not fp32."),
    ],
)
def test_bad_input(words: str, said: str, refused: Any) -> None:
    assert refused(f"limiter {words}").startswith(said)
