"""Loops that can never end are told from those that only take long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError

Execute = Callable[..., Any]

AGAIN = "registers and memory are again what they were"


def ends(execute: Execute, body: str, **how: Any) -> tuple[bool, list[str], list[int]]:
    memory = np.zeros(32, np.uint32)
    report = execute(f"add.u64 %d1, %d0, %d99; mov.u32 %r1, 0;\n{body}", memory, **how)
    return report.completed, [it.message for it in report.findings], memory.tolist()


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize(
    "loop",
    [
        "LOOP: bra LOOP;",
        "LOOP: bra.uni LOOP;",
        "LOOP: st.global.u32 [%d1], 7; bra LOOP;",
        "LOOP: add.u32 %r1, %r1, 1; and.b32 %r1, %r1, 7; st.global.u32 [%d1], %r1; bra LOOP;",
        "LOOP: ld.global.u32 %r2, [%d1]; xor.b32 %r2, %r2, 1; st.global.u32 [%d1], %r2;"
        "mov.u32 %r2, 0; bra LOOP;",
        "LOOP: bar.sync 0; bra LOOP;",
        "setp.lt.u32 %p1, %r99, 8;\nLOOP: @%p1 bra LOOP;",
    ],
)
def test_a_state_that_comes_again(execute: Execute, loop: str, checks: bool) -> None:
    completed, messages, _ = ends(execute, loop, checks=checks)
    assert not completed
    assert len(messages) == 1
    assert AGAIN in messages[0]


def test_long_loops_end(execute: Execute) -> None:
    count = (
        "LOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 20000; @%p1 bra LOOP;"
        "st.global.u32 [%d1], %r1;"
    )
    assert ends(execute, count, checks=True) == (True, [], [20000] * 32)


@pytest.mark.parametrize("place", ["global.u32 [%d1]", "shared.u32 [s]", "local.u32 [l]"])
def test_what_only_memory_remembers(execute: Execute, place: str) -> None:
    """At the end of a round the registers are what they were at the end of the round before."""
    body = (
        f".shared .align 4 .b8 s[4]; .local .align 4 .b8 l[4]; st.{place}, 0;\n"
        f"LOOP: ld.{place.replace(' [', ' %r2, [')}; add.u32 %r2, %r2, 1; st.{place}, %r2;"
        "setp.lt.u32 %p1, %r2, 9000; mov.u32 %r2, 0; @%p1 bra LOOP; st.global.u32 [%d1], 5;"
    )
    assert ends(execute, body, block=(1,)) == (True, [], [5] + [0] * 31)


def test_clocks_run_on(execute: Execute) -> None:
    wait = (
        "mov.u64 %d2, %clock64; add.u64 %d2, %d2, 100000;\nLOOP: mov.u64 %d3, %clock64;"
        "setp.lt.u64 %p1, %d3, %d2; mov.u64 %d3, 0; @%p1 bra LOOP;"
    )
    assert ends(execute, wait)[:2] == (True, [])


@pytest.mark.parametrize("order", [{}, {"schedule": "random"}])
def test_the_step_limit(execute: Execute, order: dict[str, str]) -> None:
    grow = "LOOP: add.u32 %r1, %r1, 1; st.global.u32 [%d1], %r1; bra LOOP;"
    completed, messages, memory = ends(execute, grow, step_limit=1000, **order)
    assert not completed
    assert "1,000 steps (basic blocks) did not end it; step_limit" in messages[0]
    assert memory[0] > 0


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "many"])
def test_limits_that_are_none(execute: Execute, limit: Any) -> None:
    with pytest.raises(InputError, match="whole number from 1 up"):
        ends(execute, "ret;", step_limit=limit)


POLL = "LOOP: ld.volatile.global.u32 %r2, [%d0]; setp.eq.u32 %p1, %r2, 0; @%p1 bra LOOP;"


def test_a_poll_whose_state_comes_again_ends_soon(execute: Execute) -> None:
    report = execute(POLL, np.zeros(1, np.uint32))
    (finding,) = report.findings
    assert "polls memory that nobody writes any more" in finding.message
    assert report.instructions["ld.volatile.global.u32"] < 200


def test_a_poll_that_counts_goes_on(execute: Execute) -> None:
    """It gives up by itself, later than the state is first looked at."""
    body = (
        "mov.u32 %r1, 0;\nLOOP: add.u32 %r1, %r1, 1; setp.gt.u32 %p2, %r1, 1500; @%p2 bra OUT;\n"
        "ld.volatile.global.u32 %r2, [%d0]; setp.eq.u32 %p1, %r2, 0; @%p1 bra LOOP;\nOUT: ret;"
    )
    report = execute(body, np.zeros(1, np.uint32))
    assert (report.completed, report.findings) == (True, [])


def test_a_poll_with_a_clock_goes_on(execute: Execute) -> None:
    body = (
        "mov.u64 %d2, %clock64; add.u64 %d2, %d2, 20000;\n"
        "LOOP: mov.u64 %d3, %clock64; setp.gt.u64 %p2, %d3, %d2; mov.u64 %d3, 0; @%p2 bra OUT;\n"
        "ld.volatile.global.u32 %r2, [%d0]; setp.eq.u32 %p1, %r2, 0; @%p1 bra LOOP;\nOUT: ret;"
    )
    report = execute(body, np.zeros(1, np.uint32))
    assert (report.completed, report.findings) == (True, [])
    assert report.instructions["ld.volatile.global.u32"] > 100


def test_lanes_behind_a_poll_have_their_turn(execute: Execute) -> None:
    """Lane 0 polls what the others write after a loop of their own."""
    body = (
        "mov.u32 %r1, 0; setp.eq.u32 %p2, %r99, 0; @!%p2 bra WORK;\n"
        f"{POLL}\nbra OUT;\n"
        "WORK: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 400; @%p1 bra WORK;\n"
        "st.volatile.global.u32 [%d0], 1;\nOUT: ret;"
    )
    report = execute(body, np.zeros(1, np.uint32), block=(64,))
    assert (report.completed, report.findings) == (True, [])
