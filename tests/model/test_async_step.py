"""K steps whose loads and products run by themselves, on numbers that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.model.async_step import SHARED_BYTES, AsyncStep
from tilewright.model.rates import L2_BURST, L2_LATENCY, TURN

LEFT = SHARED_BYTES - L2_BURST.value  # bytes a clock for products while tiles arrive
ROLES = AsyncStep(1024, 8 * 10240, 49152, 4, turns=False)  # 128x256x64: 80 bytes a clock
SINGLE = AsyncStep(512, 8 * 6144, 32768, 1, turns=True)  # 128x128x64: 96 bytes a clock


def test_products_go_slower_while_tiles_arrive() -> None:
    arriving = 49152 / L2_BURST.value
    assert ROLES.arriving == pytest.approx(arriving)
    assert ROLES.multiplying == pytest.approx(1024 + arriving * (1 - LEFT / 80))


def test_products_that_leave_enough_are_not_disturbed() -> None:
    assert replace(ROLES, read_bytes=1024 * LEFT).multiplying == pytest.approx(1024)
    assert replace(ROLES, read_bytes=0).multiplying == pytest.approx(1024)
    assert replace(ROLES, tensor=0, read_bytes=0).multiplying == 0


def test_tiles_that_arrive_all_the_time_slow_all_products() -> None:
    assert replace(ROLES, fill_bytes=1e6).multiplying == pytest.approx(1024 * 80 / LEFT)


def test_a_deep_ring_takes_what_its_slowest_pipe_takes() -> None:
    assert ROLES.clocks(1) == ROLES.multiplying
    slow = replace(ROLES, fill_bytes=1e6)
    assert slow.clocks(1) == slow.arriving


def test_one_slot_takes_load_and_products_in_turn_and_a_second_block_hides_half() -> None:
    slot = L2_LATENCY.value + SINGLE.arriving + SINGLE.multiplying + TURN.value
    assert SINGLE.clocks(1) == pytest.approx(slot)
    assert SINGLE.clocks(2) == pytest.approx(slot)  # two blocks make a step each meanwhile
    assert SINGLE.clocks(4) == pytest.approx(4 * SINGLE.multiplying)  # the pipe is full


def test_turns_are_left_where_a_ring_hides_the_loads() -> None:
    ring = replace(SINGLE, buffers=4)
    assert ring.clocks(1) == pytest.approx(ring.multiplying + TURN.value)
    assert replace(ring, turns=False).clocks(1) == ring.multiplying
    assert ring.clocks(2) == pytest.approx(2 * ring.multiplying)  # the other block fills them
