from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.bench import telemetry
from tilewright.bench.telemetry import Meter, Telemetry, typical


class FakeNvml(SimpleNamespace):
    """NVML of one GPU; what is in `refuses` raises, as an older driver does."""

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU, NVML_FI_DEV_POWER_INSTANT = 1, 0, 186

    def __init__(self, *refuses: str, instant_mw: int = 652_310, status: int = 0) -> None:
        super().__init__()
        self.refuses, self.instant_mw, self.status = refuses, instant_mw, status
        self.asked: list[str] = []

    def _told(self, name: str, value: Any) -> Any:
        self.asked.append(name)
        if name in self.refuses:
            raise RuntimeError("Not Supported")
        return value

    def nvmlInit(self) -> None:  # noqa: N802
        self._told("init", None)

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return str(self._told("handle", uuid))

    def nvmlDeviceGetClockInfo(self, gpu: str, clock: int) -> int:  # noqa: N802
        assert (gpu, clock) == ("GPU-1", 1)
        return int(self._told("clock", 1980))

    def nvmlDeviceGetFieldValues(self, gpu: str, fields: list[int]) -> list[Any]:  # noqa: N802
        value = SimpleNamespace(uiVal=self.instant_mw)
        assert fields == [186]
        return [self._told("instant", SimpleNamespace(nvmlReturn=self.status, value=value))]

    def nvmlDeviceGetPowerUsage(self, gpu: str) -> int:  # noqa: N802
        return int(self._told("power", 600_000))

    def nvmlDeviceGetTemperature(self, gpu: str, sensor: int) -> int:  # noqa: N802
        return int(self._told("temperature", 48))

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: str) -> int:  # noqa: N802
        return int(self._told("reasons", 0x4))


def with_nvml(monkeypatch: pytest.MonkeyPatch, nvml: Any) -> None:
    monkeypatch.setattr(importlib, "import_module", lambda name: nvml)


def test_a_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    with_nvml(monkeypatch, nvml)
    meter = Meter("GPU-1")
    assert meter.read() == Telemetry(1980, 652.31, 48, ("power cap",))
    assert meter.read() == Telemetry(1980, 652.31, 48, ("power cap",))
    assert nvml.asked.count("init") == 1


@pytest.mark.parametrize(
    ("nvml", "reading"),
    [
        (FakeNvml("clock"), Telemetry(None, 652.31, 48, ("power cap",))),
        (FakeNvml("instant"), Telemetry(1980, 600.0, 48, ("power cap",))),
        (FakeNvml(status=3), Telemetry(1980, 600.0, 48, ("power cap",))),
        (FakeNvml("instant", "power"), Telemetry(1980, None, 48, ("power cap",))),
        (FakeNvml("temperature", "reasons"), Telemetry(1980, 652.31, None, None)),
        (FakeNvml("init"), Telemetry()),
        (FakeNvml("handle"), Telemetry()),
    ],
)
def test_what_is_not_told_is_none(
    monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml, reading: Telemetry
) -> None:
    with_nvml(monkeypatch, nvml)
    assert Meter("GPU-1").read() == reading


def test_without_nvml_nothing_is_known_and_nothing_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    assert Meter("GPU-1").read() == Telemetry()


@pytest.mark.parametrize(
    ("bits", "reasons"), [(0, ()), (1, ()), (0x44, ("power cap", "hardware thermal"))]
)
def test_throttle_reasons(bits: int, reasons: tuple[str, ...]) -> None:
    assert telemetry.reasons_of(bits) == reasons


def test_of_many_readings_the_medians_and_every_reason() -> None:
    readings = [
        Telemetry(1500, 690.0, 50, ("power cap",)),
        Telemetry(1700, 600.0, None, ()),
        Telemetry(1900, None, 52, ("hardware thermal", "power cap")),
        Telemetry(),
    ]
    reasons = ("power cap", "hardware thermal")
    assert typical(readings) == Telemetry(1700, 645.0, 51, reasons)
    assert typical([Telemetry(throttle=())]) == Telemetry(throttle=())
    assert typical([Telemetry()]) == typical([]) == Telemetry()
