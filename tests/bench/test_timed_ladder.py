"""The ladder on a GPU, on a fake one: an emulator whose clock runs as each kernel is told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.bench import timed_ladder
from tilewright.bench.ladder import Ladder, climb
from tilewright.bench.record import parse_line, to_line
from tilewright.bench.telemetry import Telemetry
from tilewright.engines.emulator import EmulatorBuffer, EmulatorEngine
from tilewright.gpus import GPUS
from tilewright.launch import Launch

pytestmark = pytest.mark.usefixtures("compiler")

TIMES_US = {"torch": 40.0, "hgemm_naive": 80.0, "hgemm_bcf": 50.0}
M, N, K = 128, 256, 64


class FakeGpu(EmulatorEngine):
    """Computes in the emulator where an output was poisoned; its clock is made up."""

    name = "gpu"
    title = "NVIDIA H200, driver 580.0"
    gpu_name = "NVIDIA H200"
    driver, cuda, uuid = "580.0", "13.0", "GPU-0"
    l2_bytes = 100_000
    stream = 0

    def __init__(self) -> None:
        super().__init__(GPUS["h200"])
        self.name, self.title = FakeGpu.name, FakeGpu.title
        self.now_us = 0.0
        self.poisoned = False  # is there an output that somebody wants computed?
        self.broken_after: float | None = None  # from then on nothing is written

    def free_bytes(self) -> int:
        return 10**9

    def refill(self, buffer: EmulatorBuffer) -> None:
        self.poisoned = True
        buffer.array.reshape(-1).view(np.uint8).fill(0xFF)

    def spend(self, name: str, compute: Callable[[], object]) -> None:
        self.now_us += TIMES_US.get(name, 60.0)
        if self.poisoned and (self.broken_after is None or self.now_us < self.broken_after):
            compute()
            self.poisoned = False

    def launch(self, launch: Launch) -> Any:
        name = launch.artifact.name.split("_", 1)[1].removesuffix(".cu")
        compute = super().launch
        self.spend(name, lambda: compute(launch))

    def record(self) -> float:
        return self.now_us

    def elapsed_us(self, start: float, end: float) -> float:
        return end - start

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def capture(self, work: Callable[[], None]) -> FakeReplay:
        before = self.now_us
        work()
        took, self.now_us = self.now_us - before, before
        return FakeReplay(self, took)


class FakeReplay:
    def __init__(self, engine: FakeGpu, took_us: float) -> None:
        self.engine, self.took_us = engine, took_us

    def replay(self) -> None:
        self.engine.now_us += self.took_us


class FakeTorch:
    name, version = "torch", "2.0"

    def __init__(self, engine: FakeGpu) -> None:
        self.engine = engine

    def bind(
        self,
        a: Sequence[EmulatorBuffer],
        b: Sequence[EmulatorBuffer],
        c: Sequence[EmulatorBuffer],
        problem: object,
    ) -> Callable[[int], None]:
        def enqueue(run: int) -> None:
            x, y, out = (each[run % len(each)].array for each in (a, b, c))

            def compute() -> None:
                out[...] = (x.astype(np.float32) @ y.astype(np.float32)).astype(out.dtype)

            self.engine.spend("torch", compute)

        return enqueue


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    engine = FakeGpu()
    reading = Telemetry(1900, 600.0, 50, ())
    monkeypatch.setattr("tilewright.bench.ladder.open_engine", lambda name, gpu: engine)
    monkeypatch.setattr("tilewright.bench.ladder.EmulatorEngine", type("Other", (), {}))
    monkeypatch.setattr(timed_ladder, "found_peers", lambda e: ([FakeTorch(e)], ["x is left out"]))
    monkeypatch.setattr("tilewright.bench.telemetry.sample", lambda uuid: reading)
    monkeypatch.setattr(timed_ladder, "_LEAD_IN_US", 100.0)
    monkeypatch.setattr(timed_ladder, "_ROUND_US", 500.0)
    return engine


def timed(rungs: Sequence[str] = ("hgemm_naive", "hgemm_bcf")) -> Ladder:
    return climb(m=M, n=N, k=K, rungs=rungs)


def test_rows_say_how_fast(gpu: FakeGpu) -> None:
    ladder = timed()
    assert [row.name for row in ladder] == ["torch", "hgemm_naive", "hgemm_bcf"]
    assert ladder["torch"].family == "peer"
    for row in ladder:
        assert (row.engine, row.status, row.correct, row.rival) == ("gpu", "ok", True, "torch")
        assert row.us == pytest.approx(TIMES_US[row.name])
        assert row.tflops == pytest.approx(2 * M * N * K / TIMES_US[row.name] / 1e6)
        assert row.speedup == pytest.approx(40 / TIMES_US[row.name])  # torch's time ÷ this one's
        assert row.instructions is None
    assert ladder["hgemm_bcf"].blocks_per_sm == 2
    assert ladder.notes == ("x is left out",)
    assert "speedup: torch's time ÷ this one's" in str(ladder)


def test_records_say_the_same(gpu: FakeGpu) -> None:
    ladder = timed()
    lines = {line.name: line for line in ladder.measurements}
    assert list(lines) == ["torch", "hgemm_naive", "hgemm_bcf"]
    for name, line in lines.items():
        assert line.ratio == pytest.approx(40 / TIMES_US[name])
        assert line.rival_us == pytest.approx(40)
        assert (line.rival, line.rival_version) == ("torch", "2.0")
        assert (line.m, line.n, line.k, line.inputs) == (M, N, K, "normal(0, 1)")
        assert (line.sm_mhz, line.power_w, line.temperature_c) == (1900, 600.0, 50)
        assert line.method.startswith("graph replay")
        assert parse_line(to_line(line)) == line
    assert lines["torch"].source_hash is None
    assert lines["hgemm_naive"].source_hash != lines["hgemm_bcf"].source_hash
    assert len({line.taken for line in lines.values()}) == 1


def test_inputs_walk_over_twice_the_cache(gpu: FakeGpu) -> None:
    (method,) = {line.method.split(" over ")[1] for line in timed().measurements}
    sets = -(-2 * gpu.l2_bytes // (2 * (M * K + K * N + M * N)))
    assert method.startswith(f"{sets} input sets")


def test_a_wrong_kernel_is_not_timed(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    original = FakeGpu.spend
    monkeypatch.setattr(
        FakeGpu,
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


def test_a_kernel_that_goes_wrong_under_load_is_caught_afterwards(gpu: FakeGpu) -> None:
    gpu.broken_after = 2_000.0  # µs: after the first check, before the second
    ladder = timed()
    assert {row.status for row in ladder} == {"wrong"}
    assert all(row.us is None for row in ladder)
    assert [line.correct for line in ladder.measurements] == [False] * 3


def test_a_refused_rung_is_a_row(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tilewright.ladder.rungs.Rung.refusal",
        lambda self, problem: "no." if self.name == "hgemm_naive" else None,
    )
    ladder = climb(m=M, n=N, k=K, family="hgemm")
    assert ladder["hgemm_naive"].status == "skipped"
    assert ladder["hgemm_bcf"].status == "ok"
