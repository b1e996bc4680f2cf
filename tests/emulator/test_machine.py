"""Control flow: divergence, loops, exits, barriers, deadlocks, traps, chunks of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Execute = Callable[..., Any]

STORE = "add.s64 %d1, %d0, %d99; st.global.u32 [%d1], %r1;"


def test_both_sides_of_a_branch_and_what_follows(execute: Execute) -> None:
    out = np.zeros(32, "u4")
    body = f"""mov.u32 %r1, 0; and.b32 %r2, %r99, 3; setp.eq.u32 %p1, %r2, 0; @%p1 bra THEN;
      add.u32 %r1, %r1, 1; setp.eq.u32 %p2, %r2, 1; @%p2 bra INNER; add.u32 %r1, %r1, 10;
      bra.uni END; INNER: add.u32 %r1, %r1, 100; bra END; THEN: add.u32 %r1, %r1, 1000;
      END: add.u32 %r1, %r1, 10000; {STORE} ret;"""
    report = execute(body, out)
    assert out.tolist() == [11000, 10101, 10011, 10011] * 8
    assert report.instructions["st.global.u32"] == 1  # the warp came together again
    assert report.instructions["add.s64"] == 1


@pytest.mark.parametrize("block", [(32,), (40,), (128,)])
@pytest.mark.parametrize("unit", ["lane", "warp", "block"])
def test_loops_of_different_lengths(execute: Execute, unit: str, block: tuple[int]) -> None:
    out = np.zeros((5, block[0]), "u4")
    count = {"lane": "%r99", "warp": "%warpid", "block": "%ctaid.x"}[unit]
    body = f"""mov.u32 %r2, {count}; mov.u32 %r1, 100; mov.u32 %r3, 0;
      LOOP: setp.ge.u32 %p1, %r3, %r2; @%p1 bra END; add.u32 %r1, %r1, %r3;
      add.u32 %r3, %r3, 1; bra LOOP;
      END: mov.u32 %r4, %ctaid.x; mad.lo.u32 %r4, %r4, {block[0]}, %r99;
      mul.wide.u32 %d99, %r4, 4; {STORE} ret;"""
    report = execute(body, out, grid=(5,), block=block)
    rows, columns = np.indices(out.shape)
    n = {"lane": columns, "warp": columns // 32, "block": rows}[unit]
    np.testing.assert_array_equal(out, 100 + n * (n - 1) // 2)
    warps = -(-block[0] // 32)
    assert report.instructions["st.global.u32"] == 5 * warps
    longest = {
        "lane": sum(min(32 * w + 31, block[0] - 1) for w in range(warps)) * 5,
        "warp": sum(range(warps)) * 5,
        "block": sum(range(5)) * warps,
    }[unit]
    assert report.instructions["bra"] == 5 * warps + 2 * longest


def test_a_do_while_loop_issues_as_often_as_its_longest_lane(execute: Execute) -> None:
    body = (
        """mov.u32 %r1, %r99; L: sub.s32 %r1, %r1, 1; setp.ge.s32 %p1, %r1, 0; @%p1 bra L; ret;"""
    )
    report = execute(body)
    assert report.instructions["sub.s32"] == 32


def test_early_exits_and_guarded_returns(execute: Execute) -> None:
    out = np.zeros(64, "u4")
    body = f"""setp.lt.u32 %p1, %r99, 5; @%p1 ret; setp.eq.u32 %p1, %r99, 9; @%p1 exit;
      mov.u32 %r1, 1; {STORE} setp.lt.u32 %p2, %r99, 40; @!%p2 ret; mov.u32 %r1, 2; {STORE}"""
    report = execute(body, out, block=(64,))
    assert out.tolist() == [0] * 5 + [2] * 4 + [0] + [2] * 30 + [1] * 24
    assert report.completed


@pytest.mark.parametrize("body", ["", "ret;", "@%p1 ret;", "bra E; E:", "exit;", "L: @%p1 bra L;"])
def test_kernels_of_almost_nothing(execute: Execute, body: str) -> None:
    report = execute(body, block=(1,), grid=(3, 1, 2))
    assert report.completed
    assert (report.findings, report.accesses) == ([], [])


def test_a_kernel_of_nothing() -> None:
    import tilewright

    text = ".version 8.0\n.target sm_80\n.entry k\n{\n}\n"
    report = tilewright.emulate(text, "k", (2,), (1024,), [])
    assert (report.completed, report.instructions, report.totals["instructions"]) == (True, {}, 0)


@pytest.mark.parametrize("threads", [1, 31, 33, 40, 1024])
def test_partial_warps_touch_only_their_own(execute: Execute, threads: int) -> None:
    out = np.zeros(1056, "u4")
    report = execute(f"mov.u32 %r1, 7; {STORE} ret;", out, block=(threads,))
    assert out.tolist() == [7] * threads + [0] * (1056 - threads)
    assert report.accesses[0].bytes == 4 * threads
    assert report.instructions["ret"] == -(-threads // 32)


# --- Barriers ---------------------------------------------------------------------------

EXCHANGE = """.shared .b32 s[256]; mov.u32 %r2, s; mad.lo.u32 %r3, %r99, 4, %r2;
  mov.u32 %r4, %ntid.x; sub.u32 %r4, %r4, 1; sub.u32 %r5, %r4, %r99; mad.lo.u32 %r5, %r5, 4, %r2;"""


@pytest.mark.parametrize(
    "barrier",
    [
        "bar.sync 0",
        "bar.sync 15",
        "barrier.sync 3",
        "barrier.sync.aligned 0",
        "bar.cta.sync 0",
        "barrier.cta.sync 1",
        "barrier.cta.sync.aligned 2",
    ],
)
@pytest.mark.parametrize("threads", [96, 40])
def test_a_barrier_parts_writes_from_reads(execute: Execute, barrier: str, threads: int) -> None:
    """The last warp writes after a longer way, which the first one must wait for."""
    out = np.zeros(threads, "u4")
    body = f"""{EXCHANGE} setp.lt.u32 %p1, %r99, 32; @%p1 bra WRITE;
      mov.u32 %r6, 0; SLOW: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 5; @%p2 bra SLOW;
      WRITE: st.shared.u32 [%r3], %r99; {barrier}; ld.shared.u32 %r1, [%r5]; {STORE} ret;"""
    report = execute(body, out, block=(threads,), grid=(2,))
    assert out.tolist() == list(range(threads - 1, -1, -1))
    assert report.instructions[barrier.split()[0]] == 2 * -(-threads // 32)


def test_lanes_that_have_exited_are_not_waited_for(execute: Execute) -> None:
    out = np.zeros(64, "u4")
    body = f"""{EXCHANGE} st.shared.u32 [%r3], %r99; setp.lt.u32 %p1, %r99, 5; @%p1 ret;
      setp.ge.u32 %p1, %r99, 60; @%p1 ret; bar.sync 0; ld.shared.u32 %r1, [%r5]; {STORE} ret;"""
    assert execute(body, out, block=(64,)).completed
    assert out.tolist() == [0] * 5 + list(range(58, 3, -1)) + [0] * 4


def test_warps_meet_at_a_number_and_not_at_an_instruction(execute: Execute) -> None:
    out = np.zeros(64, "u4")
    body = f"""{EXCHANGE} setp.ge.u32 %p1, %r99, 32; @%p1 bra SECOND;
      st.shared.u32 [%r3], 5; bar.sync 1; bar.sync 2; ld.shared.u32 %r1, [%r5]; {STORE} ret;
      SECOND: bar.sync 1; ld.shared.u32 %r1, [%r5]; add.u32 %r6, %r1, 1; st.shared.u32 [%r3], %r6;
      bar.sync 2; {STORE} ret;"""
    report = execute(body, out, block=(64,))
    assert report.completed
    assert out.tolist() == [6] * 32 + [5] * 32
    assert report.instructions["bar.sync"] == 4


def test_a_count_waits_for_so_many_threads(execute: Execute) -> None:
    """Warps 0 and 1 meet at barrier 1 while warp 2 waits for nobody."""
    out = np.zeros(96, "u4")
    body = f"""{EXCHANGE} mov.u32 %r1, 9; setp.ge.u32 %p1, %r99, 64; @%p1 bra END;
      st.shared.u32 [%r3], %r99; bar.sync 1, 64; xor.b32 %r7, %r99, 32; mad.lo.u32 %r7, %r7, 4, %r2;
      ld.shared.u32 %r1, [%r7]; END: {STORE} ret;"""
    assert execute(body, out, block=(96,)).completed
    assert out.tolist() == [*range(32, 64), *range(32), *[9] * 32]


def test_a_partial_warp_counts_as_a_whole_one(execute: Execute) -> None:
    assert execute("bar.sync 1, 64; ret;", block=(40,)).completed


def test_a_guarded_barrier_holds_only_those_that_take_it(execute: Execute) -> None:
    out = np.zeros(64, "u4")
    body = f"""{EXCHANGE} setp.lt.u32 %p1, %r99, 32; mov.u32 %r1, 3;
      @%p1 bar.sync 1, 32; {STORE} ret;"""
    report = execute(body, out, block=(64,))
    assert report.completed
    assert out.tolist() == [3] * 64
    assert report.instructions["bar.sync"] == 1


def test_a_barrier_in_a_loop(execute: Execute) -> None:
    out = np.zeros(64, "u4")
    body = f"""{EXCHANGE} st.shared.u32 [%r3], %r99; mov.u32 %r6, 0;
      LOOP: bar.sync 0; ld.shared.u32 %r1, [%r5]; bar.sync 0; add.u32 %r1, %r1, 1;
      st.shared.u32 [%r3], %r1; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 4; @%p1 bra LOOP;
      {STORE} ret;"""
    report = execute(body, out, block=(64,), grid=(3,))
    assert out.tolist() == [thread + 4 for thread in range(64)]
    assert report.instructions["bar.sync"] == 3 * 2 * 4 * 2


def test_a_deadlock_is_found_and_the_other_blocks_go_on(execute: Execute) -> None:
    out = np.zeros(64, "u4")
    body = f"""mov.u32 %r2, %ctaid.x; setp.ne.u32 %p1, %r2, 1; setp.lt.u32 %p2, %r99, 32;
      @%p1 bra GO; @%p2 bra FIRST; bar.sync 1; bra GO; FIRST: bar.sync 2;
      GO: mov.u32 %r1, %r2; {STORE} ret;"""
    report = execute(body, out, block=(64,), grid=(3,))
    assert not report.completed
    assert [(f.kind, f.block, f.warp, f.lane) for f in report.findings] == [
        ("deadlock", 1, 1, 0),
        ("deadlock", 1, 0, 0),
    ]
    assert (
        "32 lanes wait here at barrier 1, to which 32 of 64 threads have come; "
        "32 wait elsewhere and 0 have exited"
    ) in report.findings[0].message
    assert "'bar.sync 1'" in report.findings[0].message
    assert out.tolist() == [2] * 64


def test_half_a_warp_at_one_barrier_and_half_at_another(execute: Execute) -> None:
    body = "setp.lt.u32 %p1, %r99, 16; @%p1 bra A; bar.sync 1; ret; A: bar.sync 2; ret;"
    assert not execute(body).completed


def test_a_count_that_nobody_reaches(execute: Execute) -> None:
    report = execute("bar.sync 0, 96; ret;", block=(64,))
    assert not report.completed
    assert "64 lanes wait here" in report.findings[0].message


def test_a_trap_is_a_finding(execute: Execute) -> None:
    report = execute("setp.eq.u32 %p1, %r99, 35; @%p1 trap; ret;", block=(64,), grid=(2,))
    assert not report.completed
    (finding,) = report.findings
    assert (finding.kind, finding.block, finding.warp, finding.lane) == ("trap", 0, 1, 3)
    assert "trap" in finding.message


# --- Chunks -----------------------------------------------------------------------------


def test_blocks_run_in_chunks_in_ascending_order(execute: Execute) -> None:
    """Each block writes the same word; the last block in order is the one that stays."""
    last, out = np.zeros(1, "u4"), np.zeros(1100, "u4")
    body = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mad.lo.u32 %r1, %r2, 110, %r1;
      st.global.u32 [%d0], %r1; ld.global.u32 %r3, [%d0]; mul.wide.u32 %d2, %r1, 4;
      add.s64 %d1, %d1, %d2; st.global.u32 [%d1], %r3; ret;"""
    report = execute(body, last, out, grid=(110, 10), block=(1,))
    assert last == [1099]
    assert (np.diff(out.astype("i8")) >= 0).all()
    assert len(set(out.tolist())) == 3  # chunks of 512 blocks of one warp
    assert report.instructions["ret"] == 1100


def test_findings_of_a_later_chunk_name_their_block(execute: Execute) -> None:
    body = "mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 700; @!%p1 ld.global.u32 %r2, [%d0]; ret;"
    (finding,) = execute(body, None, grid=(800,), block=(1,)).findings
    assert (finding.block, finding.warp, finding.lane) == (700, 0, 0)
    assert "more times" not in finding.message


def test_shared_memory_is_poison_in_every_chunk(execute: Execute) -> None:
    out = np.zeros(40, "u4")
    body = """.shared .b32 s[1024]; mov.u32 %r2, s; mad.lo.u32 %r2, %r99, 4, %r2;
      ld.shared.u32 %r3, [%r2]; st.shared.u32 [%r2], 1; setp.ne.u32 %p1, %r99, 77; @%p1 ret;
      mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %r1, 4; add.s64 %d0, %d0, %d1;
      st.global.u32 [%d0], %r3; ret;"""
    execute(body, out, grid=(40,), block=(1024,))
    assert out.tolist() == [0xFFFF_FFFF] * 40


@pytest.mark.parametrize("space", ["shared", "local"])
def test_a_32_bit_address_and_its_offset_wrap(execute: Execute, space: str) -> None:
    """Compilers let a pointer run below the start of a window and add the rest as an offset."""
    out = np.full(1, 99, np.uint32)
    report = execute(
        f".{space} .align 4 .b8 s[1024]; mov.u32 %r1, s; st.{space}.u32 [%r1+512], 7;\n"
        f"sub.u32 %r2, %r1, 508; ld.{space}.u32 %r3, [%r2+1020]; st.global.u32 [%d0], %r3;",
        out,
        block=(1,),
        checks=True,
    )
    assert (out[0], report.findings) == (7, [])
