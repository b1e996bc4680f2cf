"""What the GPU says of itself while it works: clock, power, temperature, throttling.

Read through NVML, in a fraction of a millisecond, so that a reading falls into the interval that
is timed. It only reads; no setting is ever changed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

T = TypeVar("T")

# Bits of NVML's clocks event reasons (nvml.h, nvmlClocksEventReason*); 0x1 is "idle".
_REASONS = {
    0x2: "applications clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
    0x100: "display clocks",
}


@dataclass(frozen=True)
class Telemetry:
    """One reading. A field is None where the driver does not tell it.

    `sm_mhz` is the SM clock, `power_w` the board's draw at this moment (averaged by older drivers
    over up to a second), `throttle` the reasons why the clock is below its maximum, () for none.
    """

    sm_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    throttle: tuple[str, ...] | None = None


class Meter:
    """Reads the GPU with this UUID ("GPU-…"). Without NVML all that it reads is None."""

    def __init__(self, uuid: str) -> None:
        self._nvml: Any = None
        try:
            nvml: Any = importlib.import_module("pynvml")
            nvml.nvmlInit()
            self._gpu = nvml.nvmlDeviceGetHandleByUUID(uuid)
        except Exception:  # not installed, no driver, or a GPU that NVML does not know
            return
        self._nvml = nvml

    def read(self) -> Telemetry:
        """What the GPU says now. Raises: nothing. Cost: about 0.2 ms."""
        if self._nvml is None:
            return Telemetry()
        nvml, gpu = self._nvml, self._gpu
        return Telemetry(
            _told(lambda: int(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM))),
            _told(lambda: _instant_mw(nvml, gpu) / 1e3)
            or _told(lambda: float(nvml.nvmlDeviceGetPowerUsage(gpu)) / 1e3),
            _told(lambda: int(nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU))),
            _told(lambda: reasons_of(int(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)))),
        )


def typical(readings: Sequence[Telemetry]) -> Telemetry:
    """The medians of what was told, and every reason that was told at least once."""
    throttles = [reading.throttle for reading in readings if reading.throttle is not None]
    mhz, watts, celsius = (
        [value for reading in readings if (value := getattr(reading, name)) is not None]
        for name in ("sm_mhz", "power_w", "temperature_c")
    )
    return Telemetry(
        round(median(mhz)) if mhz else None,
        median(watts) if watts else None,
        round(median(celsius)) if celsius else None,
        tuple(dict.fromkeys(reason for told in throttles for reason in told))
        if throttles
        else None,
    )


def reasons_of(bits: int) -> tuple[str, ...]:
    """NVML's bits as words; an idle GPU is not throttled."""
    return tuple(word for bit, word in _REASONS.items() if bits & bit)


def _instant_mw(nvml: Any, gpu: Any) -> float:
    (field,) = nvml.nvmlDeviceGetFieldValues(gpu, [nvml.NVML_FI_DEV_POWER_INSTANT])
    if field.nvmlReturn:
        raise LookupError(field.nvmlReturn)
    return float(field.value.uiVal)


def _told(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except Exception:  # an older driver, or a GPU that does not tell this
        return None
