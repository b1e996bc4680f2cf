"""A GPU for tests: an emulator whose clock runs as each kernel is told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.bench.inputs import logical
from tilewright.bench.peers import Bound
from tilewright.bench.roofs import Roofs
from tilewright.bench.telemetry import Telemetry
from tilewright.dtypes import DType
from tilewright.engines.emulator import EmulatorBuffer, EmulatorEngine
from tilewright.gpus import GPUS
from tilewright.launch import Launch
from tilewright.problem import Problem

TIMES_US = {"torch": 40.0, "lt_best": 32.0, "hgemm_naive": 80.0, "hgemm_bcf": 50.0}
ROOFS = Roofs("bf16", empty_us=1.0, reads=((1 << 20, 2.0),), copy_gbps=1000.0, mma_tflops=0.2)


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

    def refill(self, buffer: EmulatorBuffer, byte: int = 0xFF) -> None:
        self.poisoned = True
        buffer.array.reshape(-1).view(np.uint8).fill(byte)

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

    def wait(self, mark: float) -> None:
        """Nothing is ever pending."""

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
    def __init__(self, engine: FakeGpu, name: str = "torch") -> None:
        self.engine, self.name = engine, name

    def bind(
        self,
        a: Sequence[EmulatorBuffer],
        b: Sequence[EmulatorBuffer],
        c: Sequence[EmulatorBuffer],
        problem: Problem,
    ) -> Bound:
        def enqueue(run: int) -> None:
            stored, other, out = (each[run % len(each)].array for each in (a, b, c))
            x, y = logical(problem, stored, other)

            def compute() -> None:
                out[...] = (x.astype(np.float32) @ y.astype(np.float32)).astype(out.dtype)

            self.engine.spend(self.name, compute)

        return Bound(enqueue, "2.0")


@pytest.fixture
def times_us() -> dict[str, float]:
    """What each kernel takes on the fake; 60 for others."""
    return TIMES_US


@pytest.fixture
def gpu(compiler: str, monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """The fake, found by everything that opens an engine: torch is there, quack is left out."""
    engine = FakeGpu()
    reading = Telemetry(1900, 600.0, 50, ())

    def found(
        engine: FakeGpu, dtype: DType, names: Sequence[str] = ()
    ) -> tuple[list[FakeTorch], list[str]]:
        peers = [FakeTorch(engine, name) for name in names or ("torch",) if name != "quack"]
        return peers, ["quack is left out: not installed."] if not names or "quack" in names else []

    for module in ("ladder", "suite_run"):
        monkeypatch.setattr(f"tilewright.bench.{module}.EmulatorEngine", type("Other", (), {}))
    for module in ("timed_ladder", "suite_timed"):
        monkeypatch.setattr(f"tilewright.bench.{module}.found_peers", found)
    monkeypatch.setattr("tilewright.bench.suite_timed.measure_roofs", lambda *of: ROOFS)
    monkeypatch.setattr("tilewright.bench.ladder.open_engine", lambda name, gpu: engine)
    monkeypatch.setattr("tilewright.bench.telemetry.Meter.read", lambda meter: reading)
    return engine
