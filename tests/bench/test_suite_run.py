"""Suites on a fake GPU and in the emulator: rows, summaries, budget, records."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from typing import Any

import pytest

from tilewright.bench.contest import Conditions
from tilewright.bench.record import Measurement
from tilewright.bench.suite_run import Plan, Row, SuiteRun, measure_suites, summarise
from tilewright.bench.suite_table import to_csv, to_markdown
from tilewright.bench.suites import Shape, parse_shapes
from tilewright.dtypes import BF16
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import InputError
from tilewright.gpus import GPUS
from tilewright.ladder.rungs import select

QUICK = Conditions(rounds=3, round_us=500.0, lead_in_us=100.0)


def plan(*words: str, **options: Any) -> Plan:
    shapes = tuple(("shape", shape) for shape in parse_shapes(words))
    rungs = tuple(select(None, ("hgemm_naive", "hgemm_bcf")))
    fields: dict[str, Any] = {"shapes": shapes, "dtype": BF16, "rungs": rungs}
    return Plan(**(fields | {"conditions": QUICK} | options))


def measured(engine: Any, what: Plan) -> tuple[SuiteRun, list[Measurement]]:
    lines: list[Measurement] = []
    told: list[str] = []

    def keep(new: Sequence[Measurement]) -> None:
        lines.extend(new)

    run = measure_suites(engine, what, lambda word, done, total: told.append(word), keep)
    told = [word for word in told if word != "peers and roofs"]
    assert told == [str(shape) for _, shape in what.shapes][: len(told)]
    return run, lines


def test_rows_and_records(gpu: Any, times_us: dict[str, float]) -> None:
    run, lines = measured(gpu, plan("128x256x64"))
    rows = {row.name: row for row in run.rows}
    assert list(rows) == ["torch", "hgemm_naive", "hgemm_bcf"]
    for name, row in rows.items():
        assert (row.status, row.correct, row.rival) == ("ok", True, "torch")
        assert row.us == pytest.approx(times_us[name])
        assert row.ratio == pytest.approx(40 / times_us[name])
        assert row.ratio_p20 <= row.ratio <= row.ratio_p80  # type: ignore[operator]
        rungs = "--rung hgemm_naive --rung hgemm_bcf"
        assert row.repro == (
            f"tilewright bench --shape 128x256x64:nn --dtype bf16 {rungs} --rounds 3"
        )
    assert [line.name for line in lines] == list(rows)


def test_layouts_that_no_rung_takes_are_skipped_rows(gpu: Any) -> None:
    run, lines = measured(gpu, plan("128x256x64:nt", "128x256x64:tn", "128x256x64:tt"))
    skipped = [row for row in run.rows if row.status == "skipped"]
    assert {row.name for row in skipped} == {"hgemm_naive", "hgemm_bcf"}
    assert skipped[0].reason == "hgemm_naive takes A and B row-major (nn), not nt."
    assert [line.layout for line in lines] == ["nt", "tn", "tt"]
    assert all(line.correct for line in lines)
    assert "1 × skipped: hgemm_naive takes A and B row-major (nn), not nt." in run.notes


def test_the_same_against_the_same(gpu: Any) -> None:
    run, _ = measured(gpu, plan("128x256x64", noise=True))
    again = next(row for row in run.rows if row.name == "torch again")
    assert again.ratio == pytest.approx(1)


def test_peers_can_be_chosen(gpu: Any) -> None:
    run, _ = measured(gpu, plan("128x256x64", against=("torch",)))
    assert run.rows[0].name == "torch"
    with pytest.raises(InputError, match="quack is left out: not installed"):
        measured(gpu, plan("128x256x64", against=("torch", "quack")))


def test_the_ratio_to_each_peer(gpu: Any) -> None:
    run, lines = measured(gpu, plan("128x256x64", against=("torch", "lt_best")))
    rows = {row.name: row for row in run.rows}
    ratios = rows["hgemm_bcf"].ratios
    assert ratios is not None
    assert list(ratios) == ["torch", "lt_best"]
    assert list(ratios.values()) == pytest.approx([40 / 50, 32 / 50])
    assert rows["lt_best"].ratio == pytest.approx(40 / 32)
    assert rows["lt_best"].version == "2.0"
    assert {line.rival for line in lines} == {"torch"}
    assert rows["hgemm_bcf"].repro.endswith("--against torch --against lt_best --rounds 3")
    table = next(csv.DictReader(StringIO(to_csv(run))))
    assert (table["ratio_torch"], float(table["ratio_lt_best"])) == ("1.0", 32 / 40)


def test_each_row_s_share_of_the_roof_that_binds(gpu: Any) -> None:
    run, _ = measured(gpu, plan("128x256x64"))
    torch = run.rows[0]
    matrix_us = 2 * 128 * 256 * 64 / 0.2e6
    assert torch.roof == "matrix"
    assert torch.roof_us == pytest.approx(matrix_us)
    assert torch.roof_share == pytest.approx(matrix_us / 40)
    run, _ = measured(gpu, plan("128x256x64", roofs=False))
    assert (run.rows[0].roof, run.rows[0].roof_share) == (None, None)


def test_what_no_gpu_can_do_is_flagged(gpu: Any, times_us: dict[str, float]) -> None:
    run, _ = measured(gpu, plan("128x256x64"))
    assert {row.status for row in run.rows} == {"ok"}  # the roof is 21 µs, the fastest takes 40
    run, _ = measured(gpu, plan("256x512x64"))  # a roof of 84 µs, and torch still takes 40
    torch = run.rows[0]
    assert torch.status == "wrong"
    assert "2.1 times what the matrix roof allows" in str(torch.reason)


def test_what_the_gpu_said_while_it_ran(gpu: Any) -> None:
    run, _ = measured(gpu, plan("128x256x64"))
    row = run.rows[-1]
    assert (row.sm_mhz, row.power_w, row.temperature_c, row.throttle) == (1900, 600.0, 50, ())


def test_warm_inputs_are_one_set_and_named(gpu: Any) -> None:
    warm = Conditions(3, "uniform", cold=False, rounds=3, round_us=500.0, lead_in_us=100.0)
    run, lines = measured(gpu, plan("128x256x64", conditions=warm))
    assert {row.cache for row in run.rows} == {"warm"}
    assert all("over 1 input sets" in line.method for line in lines)
    assert {line.inputs for line in lines} == {"uniform(-1, 1)"}
    assert run.rows[0].repro.endswith("--inputs uniform --cache warm --seed 3 --rounds 3")


def test_a_spent_budget_is_told(gpu: Any) -> None:
    run, _ = measured(gpu, plan("128x256x64", "256x256x64", budget_s=0.0))
    assert len({(row.m, row.n) for row in run.rows}) <= 1
    assert any("shapes are left out" in note for note in run.notes)


def test_in_the_emulator(compiler: str) -> None:
    run, lines = measured(EmulatorEngine(GPUS["h200"]), plan("128x256x64", "4096x4096x4096"))
    assert lines == []
    counted = [row for row in run.rows if row.status == "ok"]
    assert [row.name for row in counted] == ["hgemm_naive", "hgemm_bcf"]
    assert counted[1].bank_conflicts == 0
    assert counted[0].us is None
    assert "too large to be counted" in str(run.rows[-1].reason)
    assert run.notes[-1].startswith("Without a GPU there are no times")


def row(name: str, ratio: float, shape: Shape, suite: str = "odd") -> Row:
    return Row(
        suite=suite, name=name, engine="gpu", arch="sm_90", dtype="bf16", layout=shape.layout,
        m=shape.m, n=shape.n, k=shape.k, aligned=shape.aligned, inputs="normal(0, 1)",
        cache="cold", rival="torch", ratio=ratio, us=1.0, tflops=2.0,
    )  # fmt: skip


def test_summaries_never_pool_alignments_or_suites() -> None:
    even, odd = Shape(8, 16, 32), Shape(7, 9, 11)
    rows = [row("x", 0.5, even), row("x", 2.0, even), row("x", 8.0, odd), row("torch", 1.0, even)]
    rows.append(row("x", 3.0, even, suite="llm"))
    found = {(s.suite, s.aligned): s for s in summarise(rows)}
    assert len(found) == 3
    assert found["odd", True].geometric_mean == pytest.approx(1.0)
    assert (found["odd", True].shapes, found["odd", True].worst) == (2, 0.5)
    assert found["odd", False].geometric_mean == pytest.approx(8.0)
    assert found["llm", True].worst_shape == "8x16x32:nn"


def test_csv_and_markdown(gpu: Any) -> None:
    run, _ = measured(gpu, plan("128x256x64", "128x256x64:nt"))
    rows = list(csv.DictReader(StringIO(to_csv(run))))
    assert len(rows) == len(run.rows)
    assert rows[0]["name"] == "torch"
    assert float(rows[0]["us"]) == pytest.approx(40)
    lines = to_markdown(run).splitlines()
    assert lines[2].startswith("| 128×256×64 nn | torch | 40.0 |")
    assert len(lines) == 2 + sum(row.us is not None for row in run.rows)
