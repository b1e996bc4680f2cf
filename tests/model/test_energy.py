"""Energy of a GEMM: watts times seconds, by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tilewright.model.energy import energy_fields, energy_j, pj_per_flop


@dataclass(frozen=True)
class Timed:
    m: int
    n: int
    k: int
    us: float | None
    power_w: float | None


def test_watts_times_seconds() -> None:
    run = Timed(4096, 2048, 1024, 200.0, 700.0)
    assert energy_j(run) == pytest.approx(0.14)
    assert pj_per_flop(run) == pytest.approx(0.14e12 / (2 * 4096 * 2048 * 1024))
    assert energy_fields(run) == {"energy_j": energy_j(run), "pj_per_flop": pj_per_flop(run)}


@pytest.mark.parametrize(("us", "power_w"), [(None, 700.0), (200.0, None), (None, None)])
def test_what_was_not_read_has_no_energy(us: float | None, power_w: float | None) -> None:
    assert set(energy_fields(Timed(8, 8, 8, us, power_w)).values()) == {None}
