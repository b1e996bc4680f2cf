"""Barriers between some warps: arrivals, reductions, numbers in registers, and who never comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Execute = Callable[..., Any]

START = """.shared .align 16 .b8 s[4096]; mov.u32 %r50, s; mad.lo.u32 %r50, %r99, 4, %r50;
  shr.u32 %r98, %r99, 5; setp.eq.u32 %p10, %r98, 0; add.u64 %d99, %d0, %d99;
"""


def kinds(report: Any) -> list[str]:
    return [finding.kind for finding in report.findings]


def start(execute: Execute, body: str, *args: Any, threads: int = 64, **how: Any) -> Any:
    """A thread's own word of shared memory is at [%r50]; %p10 holds in warp 0; %r98 is the warp."""
    args = args or (np.zeros(threads, "u4"),)
    return execute(f"{START}{body}", *args, **{"block": (threads,), "checks": True, **how})


# --- Arrivals ---------------------------------------------------------------------------

ARRIVALS = ["bar.arrive", "bar.cta.arrive", "barrier.arrive", "barrier.cta.arrive.aligned"]
PRODUCE = """@!%p10 bra CONSUME;
  add.u32 %r1, %r99, 7; {before} {arrive} {after} bra OUT;
  CONSUME: {wait} ld.shared.u32 %r2, [%r50-128]; st.global.u32 [%d99], %r2;
  OUT: {end} ret;"""
STORE = "st.shared.u32 [%r50], %r1;"


def produce(execute: Execute, seed: int | None = None, **parts: str) -> tuple[Any, list[int]]:
    """Warp 0 writes, warp 1 reads behind barrier 1; some part of it may be another one."""
    usual = {"before": STORE, "arrive": "bar.arrive 1, 64;", "after": "", "wait": "bar.sync 1, 64;"}
    out = np.zeros(64, "u4")
    how: dict[str, Any] = {} if seed is None else {"schedule": "random", "seed": seed}
    report = start(execute, PRODUCE.format(**{**usual, "end": "", **parts}), out, **how)
    return report, out[32:].tolist()


@pytest.mark.parametrize("arrive", ARRIVALS)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_what_lies_before_an_arrival_is_there(
    execute: Execute, arrive: str, seed: int | None
) -> None:
    report, out = produce(execute, seed, arrive=f"{arrive} 1, 64;")
    assert kinds(report) == []
    assert report.completed
    assert out == list(range(7, 39))
    assert report.instructions[arrive] == 1


def test_what_lies_behind_an_arrival_races(execute: Execute) -> None:
    report, _ = produce(execute, after=f"mov.u32 %r1, 1;\n{STORE}\n")
    assert "race" in kinds(report)


def test_who_arrives_learns_nothing(execute: Execute) -> None:
    """Warp 1 reads what warp 0 overwrites behind its arrival, without having waited."""
    body = """@!%p10 bra SECOND;
      bar.arrive 1, 64; ld.shared.u32 %r1, [%r50+128]; bra OUT;
      SECOND: st.shared.u32 [%r50], 3;
      bar.sync 1, 64; OUT: ret;"""
    assert "race" in kinds(start(execute, body))
    assert kinds(start(execute, body.replace("arrive", "sync"))) == []


def test_an_arrival_does_not_order_the_lanes_of_its_warp(execute: Execute) -> None:
    body = """st.shared.u32 [%r50], 3; bar.arrive 1, 96; {more}
      setp.lt.u32 %p1, %r99, 31; @%p1 ld.shared.u32 %r1, [%r50+4]; ret;"""
    assert kinds(start(execute, body.format(more=""), threads=32)) == ["race"]
    more = "bar.warp.sync 0xffffffff;"
    assert kinds(start(execute, body.format(more=more), threads=32)) == []


def test_what_one_has_learned_is_told_on(execute: Execute) -> None:
    """Warp 0 → warp 1 → warp 2, each by a barrier of its own."""
    body = """setp.eq.u32 %p1, %r98, 1; setp.eq.u32 %p2, %r98, 2; @%p1 bra ONE; @%p2 bra TWO;
      st.shared.u32 [%r50], 4; bar.arrive 1, 64; bra OUT;
      ONE: {learn} bar.arrive 2, 64; bra OUT;
      TWO: bar.sync 2, 64; ld.shared.u32 %r1, [%r50-256];
      OUT: ret;"""
    for seed in (1, 2, 3):
        how: dict[str, Any] = {"threads": 96, "schedule": "random", "seed": seed}
        assert kinds(start(execute, body.format(learn="bar.sync 1, 64;"), **how)) == []
    report = start(execute, body.format(learn="bar.arrive 1, 64;"), threads=96)
    assert kinds(report) == ["race"]


def test_an_arrival_for_the_phase_before_is_over(execute: Execute) -> None:
    """Barrier 1 twice: the second time nobody arrives."""
    report, _ = produce(execute, wait="bar.sync 1, 64; bar.sync 1, 64;")
    (finding,) = report.findings
    assert (finding.kind, finding.warp, report.completed) == ("deadlock", 1, False)
    assert "32 of 64 threads have come" in finding.message


def test_an_arrival_that_is_missing(execute: Execute) -> None:
    report, out = produce(execute, arrive="", end="bar.sync 2, 64;")
    (first, second) = report.findings if report.findings[0].warp == 1 else report.findings[::-1]
    assert kinds(report) == ["deadlock", "deadlock"]
    assert not report.completed
    assert (
        "32 lanes wait here at barrier 1, to which 32 of 64 threads have come; "
        "32 wait elsewhere and 0 have exited (block 0, warp 1, lane 0 = thread 32)"
    ) in first.message
    assert "at barrier 2" in second.message
    report, out = produce(execute, arrive="")
    assert "32 of 64 threads have come; 0 wait elsewhere and 32 have exited" in (
        report.findings[0].message
    )
    assert out == [0] * 32


def test_an_arrival_at_another_barrier(execute: Execute) -> None:
    report, _ = produce(execute, arrive="bar.arrive 2, 64;")
    assert kinds(report) == ["deadlock"]
    assert "at barrier 1" in report.findings[0].message


def test_too_small_a_count_lets_nobody_wait(execute: Execute) -> None:
    """The arrival fills a barrier of 32 alone, and is gone when warp 1 comes."""
    report, _ = produce(execute, 4, arrive="bar.arrive 1, 32;")
    assert not report.completed or "race" in kinds(report)


def test_a_warp_arrives_once_all_its_lanes_have(execute: Execute) -> None:
    """Its halves come one after the other, and two threads have exited."""
    body = """st.shared.u32 [%r50], %r99; setp.ge.u32 %p4, %r99, 62; @%p4 ret; @%p10 bra WAIT;
      setp.lt.u32 %p1, %r99, 48; @!%p1 bra LATE; barrier.arrive 1, 64; bra OUT;
      LATE: {late} bra OUT;
      WAIT: bar.sync 1, 64; ld.shared.u32 %r1, [%r50+128]; OUT: ret;"""
    assert kinds(start(execute, body.format(late="barrier.arrive 1, 64;"))) == []
    report = start(execute, body.format(late=""))
    assert kinds(report) == []  # the other lanes have exited: nobody is left to come
    finding = start(execute, body.format(late="bar.sync 2, 64;")).findings[0]
    assert finding.kind == "deadlock"
    assert "48 of 64 threads have come" in finding.message


def test_who_has_exited_orders_nothing_at_a_counted_barrier(execute: Execute) -> None:
    body = """st.shared.u32 [%r50], 1; setp.eq.u32 %p1, %r98, 2; @%p1 bra OUT; bar.sync 1, 64;
      @%p10 ld.shared.u32 %r1, [%r50+{by}];
      OUT: ret;"""
    assert kinds(start(execute, body.format(by=128), threads=96)) == []
    for seed in (1, 2, 3):
        how: dict[str, Any] = {"threads": 96, "schedule": "random", "seed": seed}
        assert kinds(start(execute, body.format(by=256), **how)) == ["race"]


# --- Reductions -------------------------------------------------------------------------

REDUCTIONS = ["popc.u32", "and.pred", "or.pred"]


def reduced(execute: Execute, form: str, bound: int, threads: int, **how: Any) -> list[int]:
    """What every thread is told of `thread < bound`; warps 1 and up use another instruction."""
    into, say = ("%r1", "") if "popc" in form else ("%p1", "selp.u32 %r1, 1, 0, %p1;")
    body = f"""setp.lt.u32 %p2, %r99, {bound}; setp.ge.u32 %p3, %r99, {bound};
      @%p10 bra FIRST; {form} {into}, 3, !%p3; bra OUT;
      FIRST: {form} {into}, 3, %p2;
      OUT: {say} st.global.u32 [%d99], %r1; ret;"""
    out = np.full(threads, 99, "u4")
    report = start(execute, body, out, threads=threads, **how)
    assert (kinds(report), report.completed) == ([], True)
    return list(dict.fromkeys(out.tolist()))


@pytest.mark.parametrize("bound", [0, 1, 35, 70])
@pytest.mark.parametrize("how", [{}, {"schedule": "random", "seed": 1}])
def test_reductions_over_a_block(execute: Execute, bound: int, how: dict[str, Any]) -> None:
    for words in ("bar.red.{}", "bar.cta.red.{}", "barrier.red.{}"):
        told = [reduced(execute, words.format(it), bound, 70, **how) for it in REDUCTIONS]
        assert told == [[bound], [int(bound == 70)], [int(bound > 0)]]
    assert reduced(execute, "barrier.cta.red.popc.aligned.u32", bound, 70, **how) == [bound]
    assert reduced(execute, "barrier.red.or.aligned.pred", bound, 70, **how) == [int(bound > 0)]


def test_reductions_of_two_teams(execute: Execute) -> None:
    """Warps 0, 1 and 2, 3 at barriers of their own, numbered by a register, in two blocks."""
    body = """shr.u32 %r1, %r99, 6; add.u32 %r1, %r1, 4; mov.u32 %r3, %ctaid.x;
      setp.lt.u32 %p1, %r99, 70; setp.eq.and.u32 %p1, %r3, 1, %p1;
      bar.red.popc.u32 %r2, %r1, 64, %p1; mad.wide.u32 %d1, %r3, 512, %d99;
      st.global.u32 [%d1], %r2; ret;"""
    out = np.zeros(256, "u4")
    assert kinds(start(execute, body, out, threads=128, grid=(2,))) == []
    assert out.tolist() == [0] * 128 + [64] * 64 + [6] * 64


@pytest.mark.parametrize("form", REDUCTIONS)
def test_a_reduction_orders_and_waits_as_a_barrier_does(execute: Execute, form: str) -> None:
    into = "%r1" if "popc" in form else "%p1"
    body = """setp.eq.u32 %p2, %r99, 0; st.shared.u32 [%r50], 1; {wait}
      @%p10 ld.shared.u32 %r2, [%r50+128]; ret;"""
    wait = f"bar.red.{form} {into}, 0, %p2;"
    assert kinds(start(execute, body.format(wait=wait))) == []
    assert kinds(start(execute, body.format(wait=""))) == ["race"]
    report = start(execute, body.format(wait=f"@%p10 bar.red.{form} {into}, 1, 64, %p2;"))
    assert "deadlock" in kinds(report)
    assert any(
        "at barrier 1, to which 32 of 64 threads have come; 0 wait elsewhere and 32 have exited"
        in finding.message
        for finding in report.findings
    )


def test_the_result_of_a_reduction_is_a_register_that_was_written(execute: Execute) -> None:
    body = "setp.eq.u32 %p2, %r99, 0; {by} st.global.u32 [%d0], %r1; ret;"
    assert kinds(start(execute, body.format(by=""))) == ["uninitialised"]
    assert kinds(start(execute, body.format(by="bar.red.popc.u32 %r1, 0, %p2;"))) == []


# --- Numbers and counts in registers ----------------------------------------------------


def test_warps_of_different_barriers_in_one_instruction(execute: Execute) -> None:
    """Warps 0 and 2 meet at barrier 1 of block 0, 2 of block 1; warps 1 and 3 at the next one."""
    body = """and.b32 %r1, %r98, 1; mov.u32 %r2, %ctaid.x; add.u32 %r1, %r1, %r2;
      add.u32 %r1, %r1, 1; mov.u32 %r3, 64; st.shared.u32 [%r50], %r99; bar.sync %r1, {count};
      setp.lt.u32 %p1, %r99, 64; @%p1 ld.shared.u32 %r4, [%r50+{by}]; ret;"""
    for count in ("64", "%r3"):
        how: dict[str, Any] = {"threads": 128, "grid": (2,)}
        assert kinds(start(execute, body.format(count=count, by=256), **how)) == []
        assert kinds(start(execute, body.format(count=count, by=128), **how)) == ["race"]


def test_a_barrier_of_the_whole_block_by_a_register(execute: Execute) -> None:
    body = """mov.u32 %r1, 3; st.shared.u32 [%r50], %r99; bar.sync %r1;
      @%p10 ld.shared.u32 %r2, [%r50+128]; ret;"""
    assert kinds(start(execute, body)) == []


def test_deadlocks_at_several_barriers_of_one_instruction(execute: Execute) -> None:
    report = start(execute, "add.u32 %r1, %r98, 5; bar.sync %r1, 64; ret;")
    assert kinds(report) == ["deadlock", "deadlock"]
    said = sorted(finding.message for finding in report.findings)
    assert "at barrier 5, to which 32 of 64 threads have come; 32 wait elsewhere" in said[0]
    assert "at barrier 6, to which" in said[1]


def test_lanes_of_a_warp_name_two_barriers(execute: Execute) -> None:
    report = start(execute, "and.b32 %r1, %r99, 1; bar.sync %r1, 32; ret;", threads=32)
    assert kinds(report) == ["deadlock", "deadlock"]
    assert "16 of 32 threads have come; 16 wait elsewhere" in report.findings[0].message


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("bar.sync %r1, 64;", "barrier 16 must be 0 to 15"),
        ("bar.arrive %r1, 64;", "barrier 16 must be 0 to 15"),
        ("bar.red.popc.u32 %r3, %r1, %p10;", "barrier 16 must be 0 to 15"),
        ("bar.sync %r4;", "barrier 4294967295 must be 0 to 15"),
        ("bar.sync 1, %r2;", "the count 48 must be a multiple of 32"),
        ("bar.sync 1, %r99;", "the count 0 must be a multiple of 32"),
    ],
)
@pytest.mark.parametrize("checks", [True, False])
def test_values_that_no_barrier_has(execute: Execute, form: str, said: str, checks: bool) -> None:
    """Nobody waits there, and the run goes on."""
    body = f"mov.u32 %r1, 16; mov.u32 %r2, 48; mov.u32 %r3, 0; mov.u32 %r4, -1;\n{form}\nret;"
    report = start(execute, body, checks=checks)
    finding = report.findings[0]
    assert (finding.kind, finding.block, finding.warp) == ("invalid-barrier", 0, 0)
    assert said in finding.message


# --- Threads that have exited -----------------------------------------------------------

LEAVE = """setp.ge.u32 %p1, %r99, {bound}; @%p1 ret;
  bar.sync 0;
  bar.sync {second};
  ret;"""


def test_a_block_s_barrier_misses_who_has_exited(execute: Execute) -> None:
    """Each barrier once, at its line, for all blocks; the run goes on."""
    report = start(execute, LEAVE.format(bound=40, second=0), grid=(3,))
    first, second = report.findings
    assert report.completed
    assert kinds(report) == ["divergent-barrier", "divergent-barrier"]
    assert second.line == first.line + 1
    assert first.message == (
        "divergent-barrier at 'bar.sync 0': 24 threads of the block ended without coming here, "
        "the first of them lane 8 of warp 1: all must pass, so it may not stand behind a branch or "
        "a return that some take (block 0, warp 0, lane 0)"
    )
    assert kinds(start(execute, LEAVE.format(bound=40, second=0), checks=False)) == []


def test_several_barriers_of_one_line(execute: Execute) -> None:
    """As a loop that the compiler unrolled has them."""
    body = "setp.ge.u32 %p1, %r99, 16;\n@%p1 bra A; bar.sync 0; bra B; A: bar.sync 0; B: ret;"
    (finding,) = start(execute, body, threads=32).findings
    assert finding.message == (
        "divergent-barrier at 'bar.sync 0': lanes of one warp wait at several barriers of line "
        f"{finding.line} at once (block 0, warp 0, lane 16)"
    )


def test_who_need_not_come_is_not_missed(execute: Execute) -> None:
    """Threads beyond the block's end, those of counted barriers, and whole blocks."""
    assert kinds(start(execute, LEAVE.format(bound=64, second=0), threads=40)) == []
    assert kinds(start(execute, LEAVE.format(bound=0, second=0))) == []
    body = LEAVE.format(bound=32, second="1, 32").replace("bar.sync 0;", "bar.sync 2, 32;")
    assert kinds(start(execute, body)) == []


def test_who_was_stopped_by_a_trap_is_not_missed(execute: Execute) -> None:
    body = "setp.ge.u32 %p1, %r99, 40; @%p1 trap; bar.sync 0; ret;"
    assert kinds(start(execute, body)) == ["trap"]
