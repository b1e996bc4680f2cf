from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tilewright.bench import record
from tilewright.bench.roofs import MIB, Roofs, floor_us, from_lines, read_us
from tilewright.dtypes import BF16
from tilewright.errors import InputError
from tilewright.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence


NAMES = ("empty node", "cold read 2 MiB", "cold read 8 MiB", "copy 224 MiB", "mma rate")
ROOFS = Roofs(
    dtype="bf16",
    empty_us=0.5,
    reads=((2 * MIB, 2.5), (32 * MIB, 10.0), (112 * MIB, 28.0), (448 * MIB, 105.0)),
    copy_gbps=4000.0,
    mma_tflops=640.0,
)


def line(name: str, us: float = 10.0, taken: str = "2026-12-01T09:30:00Z") -> record.Measurement:
    rate = name == "mma rate"
    return record.Measurement(
        taken=taken,
        name=f"roof: {name}",
        source_hash="0" * 16,
        m=16 if rate else 1,
        n=8 if rate else 1,
        k=2_500_000 if rate else 1,
        layout="nn",
        dtype="bf16",
        inputs="random bytes; m, n, k do not apply",
        seed=0,
        us=us,
        us_samples=(us, us),
        rival=None,
        rival_version=None,
        rival_us=None,
        rival_us_samples=None,
        ratio=None,
        correct=None,
        rel_error=None,
        method="graph replay",
        gpu="NVIDIA H200",
        driver="580.1",
        cuda="13.0",
        sm_mhz=1980,
        power_w=330.0,
        temperature_c=40,
        host="Linux",
    )


# --- Floors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size_bytes", "us"),
    [
        (0, 0.5),
        (MIB, 1.5),  # half-way from the empty node
        (2 * MIB, 2.5),
        (17 * MIB, 6.25),
        (32 * MIB, 10.0),
        (72 * MIB, 19.0),
        (448 * MIB, 105.0),
        (784 * MIB, 182.0),  # the last two sizes' bandwidth goes on
    ],
)
def test_reads_are_linear_between_the_sizes_measured(size_bytes: int, us: float) -> None:
    assert read_us(ROOFS, size_bytes) == pytest.approx(us)


def test_more_bytes_never_take_less() -> None:
    noisy = replace(ROOFS, reads=((8 * MIB, 4.0), (2 * MIB, 4.4), (32 * MIB, 10.0)))
    times = [read_us(noisy, step * MIB // 4) for step in range(200)]
    assert all(before <= after for before, after in pairwise(times))
    assert read_us(noisy, 8 * MIB) == 4.4
    fast = replace(ROOFS, reads=((2 * MIB, 0.4),))
    assert read_us(fast, 2 * MIB) == read_us(fast, 4 * MIB) == 0.5


def test_the_floor_of_a_large_square_is_the_matrix_rate() -> None:
    us, which = floor_us(ROOFS, Problem(4096, 4096, 4096, BF16))
    assert which == "matrix"
    assert us == pytest.approx(2 * 4096**3 / 640e6)
    wgmma = replace(ROOFS, library_tflops=800.0)
    assert floor_us(wgmma, Problem(4096, 4096, 4096, BF16))[0] == pytest.approx(us * 0.8)
    slow = replace(ROOFS, library_tflops=500.0)
    assert floor_us(slow, Problem(4096, 4096, 4096, BF16))[0] == us


def test_the_floor_of_a_thin_product_is_memory() -> None:
    # 1×4096×4096: 32 MiB and 8 KiB in, 8 KiB out.
    us, which = floor_us(ROOFS, Problem(1, 4096, 4096, BF16))
    beyond = 8192 * 18.0 / (80 * MIB)
    assert which == "memory"
    assert us == pytest.approx(10.0 + beyond + 8192 / 4e6)


def test_the_floor_of_next_to_nothing_is_a_launch() -> None:
    us, which = floor_us(ROOFS, Problem(8, 16, 24, BF16))
    assert which == "launch"
    assert 0.5 < us < 0.502
    heavy = replace(ROOFS, mma_tflops=1e-6, reads=((2 * MIB, 0.5),))
    assert floor_us(heavy, Problem(8, 16, 24, BF16))[1] == "matrix"


def test_memory_binds_no_warm_inputs() -> None:
    us, which = floor_us(ROOFS, Problem(64, 4096, 4096, BF16), cold=False)
    assert which == "matrix"
    assert us == pytest.approx(2 * 64 * 4096**2 / 640e6)
    assert floor_us(ROOFS, Problem(64, 4096, 4096, BF16))[0] > 10


# --- Records ------------------------------------------------------------------------------


def test_roofs_are_read_from_lines() -> None:
    lines = [record.parse_line(record.to_line(line(name))) for name in NAMES]
    other = replace(line("x"), name="hgemm_bcf", taken="2025-01-01T00:00:00Z")
    found = from_lines([other, *reversed(lines)])
    assert found == Roofs(
        dtype="bf16",
        empty_us=10.0,
        reads=((2 * MIB, 10.0), (8 * MIB, 10.0)),
        copy_gbps=2 * 224 * MIB / 10.0 / 1e3,
        mma_tflops=64.0,
        lines=tuple(reversed(lines)),
    )
    assert from_lines(found.lines).reads == found.reads
    assert from_lines([*lines, line("library rate")]).library_tflops == pytest.approx(2 / 10 / 1e6)


def test_missing_and_mixed_roofs_are_refused() -> None:
    with pytest.raises(InputError, match="the roofs lack roof: cold read, roof: copy"):
        from_lines([line("empty node"), line("mma rate")])
    with pytest.raises(InputError, match="must be of one run"):
        from_lines([*map(line, NAMES), line("copy 8 MiB", taken="2026-12-02T09:30:00Z")])
    with pytest.raises(InputError, match="there are 0"):
        from_lines([])
    with pytest.raises(InputError, match="'roof: cold read all' must end with its size"):
        from_lines([*map(line, NAMES), line("cold read all")])


def _again(lines: Sequence[record.Measurement]) -> Roofs:
    return from_lines([record.parse_line(record.to_line(line)) for line in lines])
