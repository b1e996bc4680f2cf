"""Rungs on the host: rows of the ladder and of suites, and lines that say where they are from."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilewright.__main__ import run
from tilewright.bench import host_rungs, report
from tilewright.bench.charts import gather
from tilewright.bench.compare import compare
from tilewright.bench.imports import faults
from tilewright.bench.ladder import climb
from tilewright.bench.record import Measurement, parse_line, to_line
from tilewright.bench.rung_code import hash_of
from tilewright.bench.suite_run import Plan, SuiteRun, measure_suites
from tilewright.bench.suite_table import render
from tilewright.bench.suites import parse_shapes
from tilewright.dtypes import BF16, FP32
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import InputError
from tilewright.gpus import GPUS
from tilewright.ladder.python_rungs import CPU
from tilewright.ladder.rungs import RUNGS, select

SHAPE: dict[str, Any] = {"m": 24, "n": 40, "k": 16}
NAMES = ["cpu_loops", "cpu_blocked", "cpu_blas"]


def test_rows_have_times_and_no_counts() -> None:
    ladder = climb("cpu", **SHAPE, engine="emulator")
    assert [row.name for row in ladder] == NAMES
    for row in ladder:
        assert (row.engine, row.arch, row.family) == ("cpu", platform.machine(), "cpu")
        assert (row.status, row.correct, row.dtype) == ("ok", True, "fp32")
        assert row.us is not None
        assert row.us > 0
        assert row.tflops == pytest.approx(2 * 24 * 40 * 16 / row.us / 1e6)
        others = (row.speedup, row.rival, row.instructions, row.registers, row.intensity)
        assert others == (None,) * 5
    assert host_rungs.processor() in ladder.engine
    said = " ".join(str(ladder).split())
    assert "cpu_loops Three loops, one multiplication and one addition at a time." in said
    assert "Wall clock" in said
    assert "Counts, not times" not in said


def test_a_line_says_that_no_gpu_was_timed() -> None:
    (line,) = climb(rungs="cpu_blas", **SHAPE, engine="emulator").measurements
    assert (line.gpu, line.driver, line.cuda, line.sm_mhz) == (None,) * 4
    assert (line.rival, line.ratio, line.rival_us_samples) == (None,) * 3
    assert host_rungs.processor() in line.host
    assert f"NumPy {np.__version__}" in line.host
    assert 1 <= len(line.us_samples) <= host_rungs.MOST_RUNS
    assert line.method.startswith("wall clock on the host, ")
    assert line.source_hash == hash_of(RUNGS["cpu_blas"])
    assert parse_line(to_line(line)) == line
    assert list(faults(line, line.taken)) == []
    assert list(faults(replace(line, source_hash="0" * 16), line.taken)) != []


@pytest.mark.parametrize("missing", ["gpu", "driver", "cuda"])
def test_half_a_gpu_is_none(missing: str) -> None:
    (line,) = climb(rungs="cpu_blas", **SHAPE, engine="emulator").measurements
    whole = replace(line, gpu="NVIDIA H200", driver="580.1", cuda="13.0")
    assert parse_line(to_line(whole)) == whole
    with pytest.raises(InputError, match="gpu, driver and cuda must be all there, or all null"):
        to_line(replace(whole, **{missing: None}))  # type: ignore[arg-type]


def test_tables_and_pictures_of_a_gpu_leave_the_host_out() -> None:
    (line,) = climb(rungs="cpu_blas", **SHAPE, engine="emulator").measurements
    of_gpu = replace(line, gpu="NVIDIA H200", driver="580.1", cuda="13.0", name="mine")
    table = report.ladder_table([line, of_gpu])
    assert line.host not in table
    assert "fp32, NVIDIA H200** (driver 580.1, " in table
    assert gather([line, of_gpu], "ladder", "fp32").names == ("mine",)
    with pytest.raises(InputError, match="nothing is measured of fp32; there is no measurement"):
        gather([line], "ladder", "fp32")
    ours = replace(line, rival="torch", ratio=1.0)
    (row,) = compare([ours], [ours], 0.9).rows
    assert row.gpu == line.host


def test_a_run_that_takes_long_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_rungs, "MOST_SECONDS", 0)
    (line,) = climb(rungs="cpu_loops", **SHAPE, engine="emulator").measurements
    assert len(line.us_samples) == 1
    assert line.method == "wall clock on the host, one run, no warm-up"


def test_every_run_writes_all_of_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that goes wrong after the first run is found out, and has no time and no line."""
    gemm, calls = CPU[2].gemm, [0]

    def once(a: Any, b: Any, c: Any) -> None:
        calls[0] += 1
        if calls[0] == 1:
            gemm(a, b, c)

    monkeypatch.setitem(vars(CPU[2]), "gemm", once)
    ladder = climb(rungs="cpu_blas", **SHAPE, engine="emulator")
    (row,) = ladder
    assert (row.status, row.correct, row.us) == ("wrong", False, None)
    assert ladder.measurements == ()


def test_too_large_is_a_skipped_row_unless_it_is_named() -> None:
    rows = {row.name: row for row in climb("cpu", m=600, n=600, k=100, engine="emulator")}
    assert rows["cpu_loops"].status == "skipped"
    assert (rows["cpu_loops"].reason or "").startswith("cpu_loops takes m·n·k up to 33,554,432")
    assert rows["cpu_blas"].status == "ok"
    with pytest.raises(InputError, match="cpu_loops takes"):
        climb(rungs="cpu_loops", m=600, n=600, k=100, engine="emulator")


def test_on_a_gpu_machine_the_host_is_no_contestant(gpu: Any) -> None:
    ladder = climb("cpu", **SHAPE)
    assert [row.name for row in ladder] == NAMES  # no peers
    assert {line.gpu for line in ladder.measurements} == {None}


# --- Suites -------------------------------------------------------------------------------


def suite(engine: Any, *names: str, shapes: Sequence[str] = ("24x40x16",), **more: Any) -> Any:
    lines: list[Measurement] = []
    found = tuple(("shape", shape) for shape in parse_shapes(shapes))
    plan = Plan(found, rungs=tuple(select(None, names)), **more)
    return measure_suites(engine, plan, lambda *told: None, lines.extend), lines


def shown(result: SuiteRun) -> str:
    from io import StringIO

    from rich.console import Console

    screen = Console(file=StringIO(), width=100)
    with screen.capture() as captured:
        screen.print(render(result))
    return captured.get()


def test_a_suite_of_the_host_alone_needs_no_contest() -> None:
    engine = EmulatorEngine(GPUS["h200"])
    run, lines = suite(engine, *NAMES, shapes=("24x40x16", "24x40x16:tt", "900x900x900"),
                       dtype=FP32)  # fmt: skip
    assert run.engine == host_rungs.title()
    assert [row.name for row in run.rows] == NAMES * 3
    assert [row.status for row in run.rows] == ["ok"] * 6 + ["skipped", "ok", "ok"]
    for row in run.rows[:6]:
        assert (row.engine, row.correct, row.cache) == ("cpu", True, "warm")
        assert (row.ratio, row.roof, row.rival) == (None,) * 3
        assert row.us_p20 <= row.us <= row.us_p80
        assert row.repro.endswith(" ".join(f"--rung {name}" for name in NAMES)
                                  + " --engine emulator")  # fmt: skip
    assert len(lines) == 8
    assert {line.gpu for line in lines} == {None}
    assert "24×40×16 tt cpu_loops" in " ".join(shown(run).split())
    assert not any("Without a GPU" in note for note in run.notes)


def test_a_suite_on_a_gpu_times_the_host_after_the_contest(gpu: Any) -> None:
    run, lines = suite(gpu, "hgemm_naive", "cpu_blas", shapes=("128x256x64",), dtype=BF16)
    assert [(row.name, row.engine) for row in run.rows] == [
        ("torch", "gpu"), ("hgemm_naive", "gpu"), ("cpu_blas", "cpu"),
    ]  # fmt: skip
    assert [line.gpu for line in lines] == ["NVIDIA H200", "NVIDIA H200", None]
    assert run.rows[2].roof is None


def test_the_host_is_measured_only_when_named(
    capsys: pytest.CaptureFixture[str], compiler: str
) -> None:
    words = ["bench", "--engine", "emulator", "--shape", "128x128x64", "--dtype", "fp32"]
    assert run([*words, "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["name"] for row in rows] == [rung.name for rung in select("simt")]
    assert run([*words, "--rung", "cpu_blas", "--json", "-"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["name"], row["engine"], row["correct"]) == ("cpu_blas", "cpu", True)
