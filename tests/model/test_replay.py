"""The multiprocessor that plays machine code, on code whose clocks can be worked out by hand."""

from __future__ import annotations

import pytest

from tilewright.errors import InputError
from tilewright.model.machine_words import Word
from tilewright.model.rates import (
    BARRIER,
    INTEGER_CLOCKS,
    L2_LATENCY,
    SHARED_LATENCY,
    SHARED_WIDE,
)
from tilewright.model.replay import Cost, pass_clocks, step_code

FMA = Word("fma", sources=((0, 2), (1, 3)))  # a register of each bank
EVEN = Word("fma", sources=((0, 2), (1, 4), (2, 6)))
LOAD = Word("ld.shared", holds=0)
USE = Word("fma", waits=(0,))
BARRIER_WORD = Word("barrier")
SCHEDULERS = 4


def test_a_scheduler_issues_one_instruction_a_clock() -> None:
    assert pass_clocks([FMA] * 10, {}, SCHEDULERS, 1) == pytest.approx(10)
    assert pass_clocks([FMA] * 10, {}, 2 * SCHEDULERS, 3) == pytest.approx(60)


def test_a_warp_pauses_as_the_compiler_says_and_another_fills_the_gap() -> None:
    slow = [Word("fma", stall=4)] * 10
    assert pass_clocks(slow, {}, 1, 1) == pytest.approx(40)
    assert pass_clocks(slow, {}, SCHEDULERS * 4, 1) == pytest.approx(40, rel=0.02)


def test_three_registers_of_one_bank_take_three_clocks() -> None:
    assert pass_clocks([EVEN] * 20, {}, 1, 1) == pytest.approx(60)


def test_what_is_kept_is_not_read_again() -> None:
    kept = Word("fma", sources=EVEN.sources, kept=(0, 1))
    assert pass_clocks([kept] * 20, {}, 1, 1) == pytest.approx(20)


def test_what_is_kept_is_lost_when_another_warp_issues() -> None:
    """The two warps of a scheduler take turns, as each pauses, and read what they had before."""
    kept = Word("fma", stall=2, sources=((0, 2), (1, 4)), kept=(0, 1))
    assert pass_clocks([kept] * 20, {}, 1, 1) == pytest.approx(40)
    assert 50 < pass_clocks([kept] * 20, {}, 2 * SCHEDULERS, 1) <= 80


def test_a_load_is_waited_for() -> None:
    """Its own clock is a part of the latency; the FMA behind it takes one."""
    found = pass_clocks([LOAD, USE], {}, 1, 1)
    assert found == pytest.approx(SHARED_LATENCY.value + 1)
    conflicts = pass_clocks([LOAD, USE], {("ld.shared", 4): Cost(4)}, 1, 1)
    assert conflicts == pytest.approx(SHARED_LATENCY.value + 4)


@pytest.mark.parametrize(("wavefronts", "more"), [(4, 0), (16, 12)])
def test_a_load_of_16_bytes_a_lane_has_its_own_latency(wavefronts: int, more: int) -> None:
    """Which holds the four wavefronts that it takes without conflicts."""
    code = [Word("ld.shared", holds=0, width=16), USE]
    found = pass_clocks(code, {("ld.shared", 16): Cost(wavefronts)}, 1, 1)
    assert found == pytest.approx(SHARED_WIDE.value + more + 1)


def test_shared_memory_serves_all_schedulers_in_turn() -> None:
    """32 warps, 5 wavefronts each: the pipe binds, and their latency is hidden."""
    found = pass_clocks([LOAD, USE], {("ld.shared", 4): Cost(5)}, 32, 1)
    assert found == pytest.approx(32 * 5, rel=0.02)


def test_what_is_no_fma_takes_two_clocks_of_its_pipe() -> None:
    found = pass_clocks([Word("other")] * 10, {}, SCHEDULERS, 2)
    assert found == pytest.approx(20 * INTEGER_CLOCKS.value)


def test_a_barrier_holds_until_the_last_warp() -> None:
    one = pass_clocks([FMA, BARRIER_WORD], {}, SCHEDULERS, 1)
    assert one == pytest.approx(1 + BARRIER.value)
    code = [LOAD, USE, BARRIER_WORD]
    assert pass_clocks(code, {("ld.shared", 4): Cost(5)}, 8, 1) > 8 * 5 + SHARED_LATENCY.value - 5


def test_two_blocks_hide_each_others_loads() -> None:
    code = [Word("cp.async"), Word("commit"), Word("wait"), BARRIER_WORD, *[FMA] * 600]
    alone, together = (pass_clocks(code, {}, SCHEDULERS, blocks) for blocks in (1, 2))
    assert alone > 600 + L2_LATENCY.value
    assert together < 1.5 * alone


def test_a_wait_that_leaves_a_group_waits_for_the_one_before() -> None:
    head = [Word("cp.async"), Word("commit")]
    work = [FMA] * int(L2_LATENCY.value)
    now = pass_clocks([*head, Word("wait"), *work], {}, 1, 1)
    later = pass_clocks([*head, Word("wait", at_most=1), *work], {}, 1, 1)
    assert now > 2 * L2_LATENCY.value
    assert later < 1.1 * L2_LATENCY.value


@pytest.mark.parametrize(("code", "warps", "blocks"), [([], 1, 1), ([FMA], 0, 1), ([FMA], 1, 0)])
def test_nothing_to_play(code: list[Word], warps: int, blocks: int) -> None:
    with pytest.raises(InputError, match="must be 1 or more"):
        pass_clocks(code, {}, warps, blocks)


# --- The K loop ---------------------------------------------------------------------------


def back(to: int) -> Word:
    return Word("branch", target=to)


def test_the_k_loop_is_the_shortest_with_a_barrier() -> None:
    """Tiles of C around K around an inner loop of 4 FMAs that runs 3 times a step."""
    words = [
        FMA,
        LOAD,
        BARRIER_WORD,
        LOAD,
        *[FMA] * 4,
        back(3),
        FMA,
        BARRIER_WORD,
        back(1),
        back(0),
    ]
    code, steps = step_code(words, 13)
    inner = [LOAD, *[FMA] * 4, back(3)]
    assert code == [LOAD, BARRIER_WORD, *inner * 3, FMA, BARRIER_WORD, back(1)]
    assert steps == 1


def test_a_loop_of_two_steps() -> None:
    code, steps = step_code([BARRIER_WORD, *[FMA] * 8, back(0)], 4)
    assert (len(code), steps) == (10, 2)


def test_without_a_barrier_the_loop_with_most_fmas() -> None:
    words = [*[FMA] * 16, back(0), *[FMA] * 4, back(17)]
    assert step_code(words, 1) == (words[:17], 16)


@pytest.mark.parametrize(
    ("words", "products", "said"),
    [
        ([FMA, FMA], 2, "no loop that multiplies and adds"),
        ([LOAD, back(0)], 2, "no loop that multiplies and adds"),
        ([BARRIER_WORD, FMA, FMA, back(1), back(0)], 3, "do not make up a K step"),
        ([BARRIER_WORD, FMA, back(1), FMA, back(3), back(0)], 3, "do not make up a K step"),
    ],
)
def test_loops_that_are_not_known(words: list[Word], products: float, said: str) -> None:
    with pytest.raises(InputError, match=said):
        step_code(words, products)
