"""The limiter and the queueing behind it, on numbers that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.errors import InputError
from tilewright.gpus import gpu_named
from tilewright.model.async_step import tma_clocks
from tilewright.model.limiter import Counts, Run, clock_mhz, flops_a_clock, limits
from tilewright.model.queueing import round_time
from tilewright.model.rates import L2_BURST, L2_LATENCY, L2_RATE, STORE_ROW, WGMMA_STEP


def test_one_customer_takes_the_sum() -> None:
    assert round_time([576, 422], 600, 1) == 1598


def test_two_customers_overlap_partly() -> None:
    """By hand: 576/998 and 422/998 of a customer wait where the second arrives."""
    expected = 576 * (1 + 576 / 998) + 422 * (1 + 422 / 998)
    assert round_time([576, 422], 0, 2) == pytest.approx(expected)


def test_equal_stations_are_the_textbooks() -> None:
    """n customers at m stations of demand 1: a round takes m + n - 1."""
    for stations in (1, 2, 5):
        for customers in (1, 2, 3, 10):
            found = round_time([1.0] * stations, 0, customers)
            assert found == pytest.approx(stations + customers - 1)


def test_the_busiest_station_sets_the_pace_of_many() -> None:
    per_customer = round_time([3.0, 1.0], 50, 400) / 400
    assert per_customer == pytest.approx(3.0, rel=1e-3)


def test_nothing_to_do_takes_no_time() -> None:
    assert round_time([0.0, 0.0], 0, 3) == 0
    with pytest.raises(InputError, match="customers=0 must be 1 or more"):
        round_time([1], 0, 0)
    with pytest.raises(InputError, match="cannot be negative"):
        round_time([1, -1], 0, 1)


H200 = gpu_named("h200")
LOAD = L2_LATENCY.value + 16384 / L2_BURST.value  # clocks of one step's tiles
STEP = Counts(256 * 4096, 0, 576, 512, 16384, 0)  # hgemm_bcf's, one K step of 32


def of(steps: int, **other: float) -> Counts:
    values = {name: getattr(STEP, name) * steps for name in STEP.__slots__ if name != "mma_scale"}
    return Counts(**(values | other))


def test_each_resources_time() -> None:
    us = limits(of(128), Run(132, 1, 128, 1, 4800e6), H200).us
    clocks = {name: value * 1830 for name, value in us.items()}
    assert clocks["shared"] == pytest.approx(128 * 576)
    assert clocks["tensor"] == pytest.approx(128 * 432, rel=2e-3)  # 2428 FLOP a clock and SM
    assert clocks["issue"] == pytest.approx(128 * 512 / 4)
    assert clocks["l2"] == pytest.approx(128 * 16384 / L2_RATE.value)
    assert clocks["latency"] == pytest.approx(128 * LOAD)
    assert us["dram"] == pytest.approx(1000)
    assert us["fma"] == 0


@pytest.mark.parametrize(
    ("gpu", "flops", "mhz"),
    [
        ("h200", 0, 1980),
        ("h200", 1, 1830),
        ("a100", 0, 1410),
        ("a100", 1, 1410),
        ("rtx5060", 0, 2497),
    ],
)
def test_the_clock_is_that_of_the_pipe_that_multiplies(gpu: str, flops: int, mhz: int) -> None:
    counts = Counts(flops, 1, 0, 0, 0, 0)
    assert clock_mhz(counts, gpu_named(gpu)) == pytest.approx(mhz, rel=2e-3)


def test_a_kernel_that_is_played_takes_what_its_steps_took() -> None:
    """By hand: two full waves of 2 blocks an SM and a last one of one; loads and stores beside."""
    counts = Counts(0, 1, 0, 0, 0, 4800)
    run = Run(132 * 5, 2, 100, 1, 0)
    found = limits(counts, run, H200, lambda blocks: 1000.0 * blocks + 7)
    first, stores = L2_LATENCY.value, 4800 / L2_RATE.value
    clocks = 2 * (100 * 2007 + first + 2 * stores) + 100 * 1007 + first + stores
    assert found.predicted_us == pytest.approx(clocks / clock_mhz(counts, H200))


def test_without_tiles_only_the_first_load_is_exposed() -> None:
    us = limits(of(128), Run(132, 1, 128, 0, 0), H200).us
    assert us["latency"] * 1830 == pytest.approx(LOAD)


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("l1_clocks", "l1"),
        ("shared_wavefronts", "shared"),
        ("instructions", "issue"),
        ("fma_issues", "fma"),
        ("mma_flops", "tensor"),
        ("load_bytes", "l2"),
    ],
)
def test_the_slowest_resource_binds_and_is_a_floor(field: str, name: str) -> None:
    found = limits(of(128, **{field: 1e9}), Run(1024, 2, 128, 2, 0), H200)
    assert found.binding == name
    assert found.predicted_us >= found.us[name]
    assert 0 < found.overlap <= 1


def test_memory_can_bind_too() -> None:
    assert limits(of(128), Run(1024, 2, 128, 2, 1e12), H200).binding == "dram"


def test_a_second_buffer_hides_a_load_that_is_shorter_than_the_work() -> None:
    single, double = (limits(of(128), Run(1056, 2, 128, n, 0), H200) for n in (1, 2))
    assert single.us["latency"] == pytest.approx(128 * double.us["latency"])
    assert double.predicted_us < single.predicted_us
    # Work much shorter than the load: each further buffer hides as much again.
    thin = of(128, mma_flops=0, shared_wavefronts=128 * 100)
    left = [limits(thin, Run(132, 1, 128, n, 0), H200).us["latency"] for n in (1, 2, 3, 9)]
    assert left[0] - left[1] == pytest.approx(left[1] - left[2])
    assert left[3] == pytest.approx(left[0] / 128)


def test_a_tail_of_few_blocks_is_shorter_than_a_wave() -> None:
    """A wave is 264 blocks; up to 132 more have an SM each to themselves."""
    one, one_more, half, more_than_half = (
        limits(of(128), Run(blocks, 2, 128, 2, 0), H200).predicted_us
        for blocks in (264, 265, 396, 397)
    )
    assert one < one_more == half < more_than_half == pytest.approx(2 * one)


def test_a_block_of_two_streams_overlaps_as_two_blocks_of_half_the_work() -> None:
    def us(steps: int, blocks: int, held: int, streams: int) -> float:
        return limits(of(steps), Run(blocks, held, steps, 9, 0, streams), H200).predicted_us

    assert us(128, 132, 1, 2) == pytest.approx(us(64, 264, 2, 1), rel=0.01)
    assert us(128, 132, 1, 2) < 0.9 * us(128, 132, 1, 1)


def test_types_of_half_and_twice_the_rate() -> None:
    plain = limits(of(1), Run(1, 1, 1, 1, 0), H200).us["tensor"]
    for scale in (0.5, 2.0):
        counts = of(1, mma_scale=scale)
        assert limits(counts, Run(1, 1, 1, 1, 0), H200).us["tensor"] == pytest.approx(plain / scale)


def test_ampere_has_half_the_fma_lanes() -> None:
    counts = of(1, fma_issues=4)
    a100 = gpu_named("a100")
    found = [limits(counts, Run(gpu.sms, 1, 1, 1, 0), gpu).us["fma"] for gpu in (H200, a100)]
    assert found == [pytest.approx(1 / 1830), pytest.approx(2 / 1410)]


def test_a_kernel_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="no block of the kernel fits on an SM of NVIDIA H200"):
        limits(STEP, Run(1, 0, 1, 1, 0), H200)


def test_wgmma_runs_at_its_measured_rate_and_reads_shared_memory() -> None:
    """64x256x16: an eighth of a step's clocks, and 10 KiB; 64 KiB that leave are 512 clocks more,
    and 48 KiB that arrive none.
    """
    assert flops_a_clock(H200) == pytest.approx(4096, rel=1e-3)
    counts = Counts(
        0, 0, 5, 0, 0, 0, wgmma_flops=2 * 64 * 256 * 16, wgmma_bytes=10240, fill_bytes=49152,
        drain_bytes=65536,
    )  # fmt: skip
    us = limits(counts, Run(132, 1, 1, 4, 0), H200, mhz=1000).us
    assert us["tensor"] * 1000 == pytest.approx(WGMMA_STEP.value / 8)
    assert us["shared"] == pytest.approx(0.005 + 0.080 + 0.512)


def test_a_clock_that_is_known_is_reckoned_with() -> None:
    run = Run(132, 1, 128, 2, 0)
    slow, usual = limits(of(128), run, H200, mhz=915), limits(of(128), run, H200)
    assert (slow.mhz, usual.mhz) == (915, 1830)
    assert slow.predicted_us == pytest.approx(2 * usual.predicted_us)


def test_blocks_that_stay_wait_for_one_load_and_stores_follow_the_products() -> None:
    """By hand: four waves of a block each, 10 steps of 1000 clocks; C is staged, then stored."""
    counts = Counts(0, 0, 0, 0, 0, 6200, fill_bytes=10 * 6100, staged=50)
    first, leaving = tma_clocks(6100), 6200 / L2_RATE.value + 50
    for store_clocks, takes in ((0.0, leaving), (300.0, 300 + 50)):
        for persistent, loads in ((False, 4), (True, 1)):
            run = Run(4 * 132, 1, 10, 4, 0, persistent=persistent)
            stored = replace(counts, store_clocks=store_clocks)
            found = limits(stored, run, H200, lambda _: 1000.0, 1000)
            expected = 4 * (10 * 1000 + takes) + loads * first
            assert found.predicted_us * 1000 == pytest.approx(expected)


def test_bulk_stores_run_beside_the_next_tiles_products() -> None:
    """By hand: as above, but 100 rows of 128 bytes leave by themselves; blocks that stay wait for
    the last of them.
    """
    counts = Counts(0, 0, 0, 0, 0, 12800, fill_bytes=10 * 6100, drain_bytes=12800, staged=50)
    ends = tma_clocks(6100) + 100 * STORE_ROW.value
    for persistent, waited in ((False, 4), (True, 1)):
        run = Run(4 * 132, 1, 10, 4, 0, persistent=persistent)
        found = limits(counts, run, H200, lambda _: 1000.0, 1000)
        expected = 4 * (10 * 1000 + 50) + waited * ends
        assert found.predicted_us * 1000 == pytest.approx(expected)


def test_a_load_by_tma_has_its_own_latency() -> None:
    counts = of(128, fill_bytes=128 * 16384)
    us = limits(counts, Run(132, 1, 128, 1, 0), H200).us
    assert us["latency"] * 1830 == pytest.approx(128 * tma_clocks(16384))
    assert us["latency"] * 1830 != pytest.approx(128 * LOAD)


def test_turns_are_latency() -> None:
    still, turning = (
        limits(of(128), Run(132, 1, 128, 2, 0, turn=turn), H200).us["latency"] for turn in (0, 100)
    )
    assert (turning - still) * 1830 == pytest.approx(127 * 100)
