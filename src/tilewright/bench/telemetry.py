"""What the GPU says of itself while it works: clock, power, temperature, throttling.

Read through nvidia-smi's query, which only reads; no setting is ever changed.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

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
_FIELDS = "clocks.sm,power.draw,temperature.gpu"
_THROTTLE_FIELD = "clocks_event_reasons.active"  # older drivers refuse a query with it
_TIMEOUT_S = 20


@dataclass(frozen=True)
class Telemetry:
    """One reading. A field is None where the driver does not tell it.

    `sm_mhz` is the SM clock, `power_w` the board's draw (averaged by the driver over up to a
    second), `throttle` the reasons why the clock is below its maximum, () for none.
    """

    sm_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    throttle: tuple[str, ...] | None = None


def sample(uuid: str | None = None) -> Telemetry:
    """One reading of the GPU with this UUID ("GPU-…"), or of the first one.

    Take it while the GPU works (protocol.sample_under_load): an idle GPU tells its idle clock.
    Raises: nothing; what cannot be read is None. Cost: a process, 0.1 to 1 s.
    """
    for fields in (f"{_FIELDS},{_THROTTLE_FIELD}", _FIELDS):
        if (line := _query(fields, uuid)) is not None:
            return parse(line)
    return Telemetry()


def parse(line: str) -> Telemetry:
    """The reading in a line of nvidia-smi's CSV without header and units."""
    cells = [cell.strip() for cell in line.split(",")] + [""] * 4
    clock, power, temperature = (_number(cell) for cell in cells[:3])
    return Telemetry(
        None if clock is None else int(clock),
        power,
        None if temperature is None else int(temperature),
        _reasons(cells[3]),
    )


def _query(fields: str, uuid: str | None) -> str | None:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    if uuid is not None:
        command += ["-i", uuid]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:  # "[N/A]", "[Not Supported]"
        return None
    return value if 0 <= value < 1e6 else None


def _reasons(cell: str) -> tuple[str, ...] | None:
    try:
        bits = int(cell, 16)
    except ValueError:
        return None
    return tuple(word for bit, word in _REASONS.items() if bits & bit)
