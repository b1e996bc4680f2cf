"""The ladder on a GPU, on a fake one: an emulator whose clock runs as each kernel is told to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tilewright.bench.contest import Conditions
from tilewright.bench.ladder import Ladder, climb
from tilewright.bench.record import parse_line, to_line

M, N, K = 128, 256, 64


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = Conditions(rounds=5, round_us=500.0, lead_in_us=100.0)
    monkeypatch.setattr("tilewright.bench.contest.Conditions", lambda seed, inputs: quick)


def timed(rungs: Sequence[str] = ("hgemm_naive", "hgemm_bcf")) -> Ladder:
    return climb(m=M, n=N, k=K, rungs=rungs)


def test_rows_say_how_fast(gpu: Any, times_us: dict[str, float]) -> None:
    ladder = timed()
    assert [row.name for row in ladder] == ["torch", "hgemm_naive", "hgemm_bcf"]
    assert ladder["torch"].family == "peer"
    for row in ladder:
        assert (row.engine, row.status, row.correct, row.rival) == ("gpu", "ok", True, "torch")
        assert row.us == pytest.approx(times_us[row.name])
        assert row.tflops == pytest.approx(2 * M * N * K / times_us[row.name] / 1e6)
        assert row.speedup == pytest.approx(40 / times_us[row.name])  # torch's time ÷ this one's
        assert row.instructions is None
        assert (row.sm_mhz, row.power_w) == (1900, 600.0)
    for row, said in zip(ladder, ladder.to_dicts(), strict=True):
        assert said["energy_j"] == pytest.approx(600e-6 * times_us[row.name])
    assert ladder["hgemm_bcf"].blocks_per_sm == 2
    assert ladder.notes == ("quack is left out: not installed.",)
    assert "speedup: torch's time ÷ this one's" in str(ladder)


def test_records_say_the_same(gpu: Any, times_us: dict[str, float]) -> None:
    ladder = timed()
    lines = {line.name: line for line in ladder.measurements}
    assert list(lines) == ["torch", "hgemm_naive", "hgemm_bcf"]
    for name, line in lines.items():
        assert line.ratio == pytest.approx(40 / times_us[name])
        assert line.rival_us == pytest.approx(40)
        assert (line.rival, line.rival_version) == ("torch", "2.0")
        assert (line.m, line.n, line.k, line.inputs) == (M, N, K, "normal(0, 1)")
        assert (line.sm_mhz, line.power_w, line.temperature_c) == (1900, 600.0, 50)
        assert line.method.startswith("graph replay")
        assert parse_line(to_line(line)) == line
    assert lines["torch"].source_hash is None
    assert lines["hgemm_naive"].source_hash != lines["hgemm_bcf"].source_hash
    assert len({line.taken for line in lines.values()}) == 1


def test_inputs_walk_over_twice_the_cache(gpu: Any, times_us: dict[str, float]) -> None:
    (method,) = {line.method.split(" over ")[1] for line in timed().measurements}
    sets = -(-2 * gpu.l2_bytes // (2 * (M * K + K * N + M * N)))
    assert method.startswith(f"{sets} input sets")


def test_a_wrong_kernel_is_not_timed(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = type(gpu).spend
    monkeypatch.setattr(
        type(gpu),
        "spend",
        lambda self, name, compute: original(
            self, name, compute if name != "hgemm_bcf" else lambda: None
        ),
    )
    ladder = timed()
    row = ladder["hgemm_bcf"]
    assert (row.status, row.correct, row.us, row.speedup) == ("wrong", False, None, None)
    assert "hgemm_bcf" not in [line.name for line in ladder.measurements]
    assert not ladder.correct


def test_a_kernel_that_goes_wrong_under_load_is_caught_afterwards(
    gpu: Any, times_us: dict[str, float]
) -> None:
    gpu.broken_after = 2_000.0  # µs: after the first check, before the second
    ladder = timed()
    assert {row.status for row in ladder} == {"wrong"}
    assert all(row.us is None for row in ladder)
    assert [line.correct for line in ladder.measurements] == [False] * 3


def test_a_refused_rung_is_a_row(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tilewright.ladder.rungs.KernelRung.refusal",
        lambda self, *asked: "no." if self.name == "hgemm_naive" else None,
    )
    ladder = climb(m=M, n=N, k=K, family="hgemm")
    assert ladder["hgemm_naive"].status == "skipped"
    assert ladder["hgemm_bcf"].status == "ok"
