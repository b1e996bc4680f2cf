"""Energy of one GEMM: the board's power while it runs, times its time.

Power is what the GPU's own meter says of the whole board, memory and idle draw included, so that a
short launch, whose power the meter hardly sees, has an energy that is rough.
"""

from __future__ import annotations

from typing import Protocol


class Powered(Protocol):
    """A GEMM that was timed: extents, microseconds a run, watts meanwhile; None where not known."""

    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def us(self) -> float | None: ...
    @property
    def power_w(self) -> float | None: ...


def energy_j(run: Powered) -> float | None:
    """Joules of one GEMM; None where its time or its power is not known."""
    if run.us is None or run.power_w is None:
        return None
    return run.power_w * run.us / 1e6


def pj_per_flop(run: Powered) -> float | None:
    """Picojoules for each of its 2·m·n·k operations; None as `energy_j` is."""
    joules = energy_j(run)
    return None if joules is None else joules * 1e12 / (2 * run.m * run.n * run.k)


def energy_fields(run: Powered) -> dict[str, float | None]:
    """Both, by the names that they have in JSON rows."""
    return {"energy_j": energy_j(run), "pj_per_flop": pj_per_flop(run)}
