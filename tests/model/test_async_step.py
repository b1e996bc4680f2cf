"""K steps whose loads and products run by themselves, on numbers that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.model.async_step import TURN_CLOCKS, AsyncStep, tma_clocks
from tilewright.model.rates import SHARED_LATENCY, TMA_BURST, TMA_LATENCY, TURN

ROLES = AsyncStep(1130, 49152, 4, turns=False)  # 128x256x64
SINGLE = AsyncStep(565, 32768, 1, turns=True)  # 128x128x64


def test_a_load_by_tma_is_a_latency_and_its_bytes() -> None:
    assert tma_clocks(0) == TMA_LATENCY.value
    assert tma_clocks(32768) - tma_clocks(0) == pytest.approx(32768 / TMA_BURST.value)
    assert ROLES.arriving == pytest.approx(49152 / TMA_BURST.value)


def test_a_deep_ring_takes_what_its_slowest_pipe_takes() -> None:
    """Tiles that arrive beside the products do not slow them."""
    assert ROLES.clocks(1) == 1130
    slow = replace(ROLES, fill_bytes=1e6)
    assert slow.clocks(1) == slow.arriving


def test_a_ring_too_shallow_for_a_load_shows_it() -> None:
    one = replace(ROLES, buffers=1)
    assert one.clocks(1) == pytest.approx(tma_clocks(49152) + 1130)
    assert replace(ROLES, buffers=2).clocks(1) == pytest.approx(one.clocks(1) / 2)


def test_one_slot_takes_load_and_products_in_turn_and_a_second_block_hides_half() -> None:
    slot = tma_clocks(32768) + 565 + TURN.value + SHARED_LATENCY.value
    assert SINGLE.clocks(1) == pytest.approx(slot)
    assert SINGLE.clocks(2) == pytest.approx(slot)  # two blocks make a step each meanwhile
    crowd = replace(SINGLE, fill_bytes=16384)
    assert crowd.clocks(4) == pytest.approx(4 * 565)  # the pipe is full
    assert SINGLE.clocks(4) == pytest.approx(4 * SINGLE.arriving)  # or what brings the tiles is


def test_turns_are_left_where_a_ring_hides_the_loads() -> None:
    ring = replace(SINGLE, buffers=4)
    assert ring.clocks(1) == pytest.approx(565 + TURN_CLOCKS)
    short = replace(ring, fill_bytes=16384)
    assert replace(short, turns=False).clocks(1) == 565
    assert short.clocks(2) == pytest.approx(2 * 565)  # the other block fills them
