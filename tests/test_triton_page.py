"""docs/triton.md: its table is fresh, and shows one run and nothing that was not measured."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from tilewright.bench.record import Measurement, load
from tilewright.ladder.rungs import select

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "triton_table.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("triton_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def naive() -> Measurement:
    """The first run's line of hgemm_naive at 4096³ bf16."""
    lines = load(ROOT / "measurements" / "h200-hgemm.jsonl")
    return next(
        line for line in lines if (line.name, line.dtype, line.m) == ("hgemm_naive", "bf16", 4096)
    )


def test_the_page_is_fresh(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0, f"run scripts/{SCRIPT.name}"


def test_a_stale_page_is_told(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        script.PAGE.read_text(encoding="utf-8").replace("| sgemm_naive |", "| mine |"),
        encoding="utf-8",
    )
    monkeypatch.setattr(script, "PAGE", page)
    assert script.main(["--check"]) == 1
    assert "is stale; run python scripts/triton_table.py" in capsys.readouterr().err
    assert script.main([]) == script.main(["--check"]) == 0


def test_what_was_not_measured_has_no_figure(script: ModuleType, naive: Measurement) -> None:
    rows = script.table("bf16", [naive]).splitlines()[4:]
    assert rows[0] == (
        f"| naive | hgemm_naive | {naive.us:,.1f} | {naive.tflops:.1f} | {naive.ratio:.2f} |"
    )
    assert [row.split(" | ")[2] for row in rows[1:]] == ["not measured yet"] * 5
    nothing = script.table("fp32", [naive])
    assert nothing.startswith("**4096×4096×4096 nn, fp32, NVIDIA H200**\n")
    assert nothing.count("not measured yet") == 6


def test_a_run_with_triton_goes_before_a_newer_one_without(
    script: ModuleType, naive: Measurement
) -> None:
    later = replace(naive, taken="2027-01-01T00:00:00Z")
    run = [
        replace(later, us=float(number), us_samples=(float(number),), name=name)
        for number, name in enumerate(["hgemm_naive", "triton_basic", "hgemm_cublas"], start=1)
    ]
    newest = replace(naive, taken="2028-01-01T00:00:00Z")
    wrong = replace(run[1], name="triton_autotune", correct=False)
    elsewhere = replace(run[1], name="triton_persistent", gpu="NVIDIA L40S")
    shown = script.table("bf16", [naive, *run, newest, wrong, elsewhere])
    assert "2027-01-01T00:00:00Z" in shown.splitlines()[0]
    times = [row.split(" | ")[2] for row in shown.splitlines()[4:]]
    lacks = "not measured yet"
    assert times == ["1.0", lacks, "2.0", lacks, lacks, "3.0"]


def test_the_kernels_of_the_table_are_there(script: ModuleType) -> None:
    ours = {rung.name for rung in select(None)}
    for dtype, roles in script.ROLES.items():
        names = [name for word, name in roles if word != "cuBLAS"]
        assert set(names) <= ours
        assert all(dtype in rung.dtypes for rung in select(None, tuple(names)))
