"""mbarrier: counts, phases, tokens, bytes and copies; what its misuse is told as."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Execute = Callable[..., Any]
SETUP = """
  .shared .align 8 .b64 bar; .shared .align 16 .b8 s[2048];
  mov.u32 %r10, bar; add.s64 %d1, %d0, %d99; setp.eq.u32 %p1, %r99, 0;
"""


def init(count: int) -> str:
    return f"{SETUP} @%p1 mbarrier.init.shared.b64 [%r10], {count}; bar.sync 0;\n"


ONE = "@%p1 mbarrier.init.shared.b64 [%r10], 1;"


def show(row: int, register: str = "%r5", lanes: int = 32) -> str:
    return f"st.global.u32 [%d1+{4 * lanes * row}], {register};\n"


def waiting(word: str) -> str:
    return f"mbarrier.test_wait.shared.b64 %p2, [%r10], {word}; selp.u32 %r5, 1, 0, %p2;\n"


def parity(which: int) -> str:
    return f"mbarrier.test_wait.parity.shared.b64 %p2, [%r10], {which}; selp.u32 %r5, 1, 0, %p2;\n"


def test_a_phase_ends_with_the_last_arrival(execute: Execute) -> None:
    out = np.full((6, 32), 9, "u4")
    body = (
        init(64)
        + f"""
      mbarrier.arrive.shared.b64 %d2, [%r10]; {waiting("%d2")} {show(0)} {parity(0)} {show(1)}
      {parity(1)} {show(2)}
      mbarrier.arrive.shared::cta.b64 %d3, [%r10]; {waiting("%d2")} {show(3)}
      {parity(0)} {show(4)} {parity(1)} {show(5)} ret;"""
    )
    report = execute(body, out, checks=True)
    assert report.findings == []
    # The phase before the first one counts as ended: parity 1 holds until the first phase ends.
    np.testing.assert_array_equal(out[:, 0], [0, 0, 1, 1, 1, 0])
    assert (out == out[:, :1]).all()


def test_tokens_of_two_phases_in_one_instruction(execute: Execute) -> None:
    """64 threads arrive at a barrier of 32: each half is a phase."""
    out = np.full((2, 64), 9, "u4")
    body = (
        init(32)
        + f"""
      mbarrier.arrive.shared.b64 %d2, [%r10]; mbarrier.pending_count.b64 %r5, %d2;
      {show(0, lanes=64)} bar.sync 0; {parity(0)} {show(1, lanes=64)} ret;"""
    )
    report = execute(body, out, block=(64,))
    assert report.findings == []
    np.testing.assert_array_equal(out[0].reshape(2, 32), [np.arange(32, 0, -1)] * 2)
    assert (out[1] == 0).all()  # two phases have ended: the present one is of parity 0 again


@pytest.mark.parametrize("count", [1, 3, 5])
def test_counts_of_arrivals(execute: Execute, count: int) -> None:
    out = np.full((2, 32), 9, "u4")
    body = (
        init(32 * count + 1)
        + f"""
      mbarrier.arrive.release.cta.shared::cta.b64 %d2, [%r10], {count};
      mbarrier.pending_count.b64 %r6, %d2; {show(0, "%r6")}
      @%p1 mbarrier.arrive.noComplete.release.cta.shared.b64 %d3, [%r10], 1;
      {parity(0)} {show(1)} ret;"""
    )
    report = execute(body, out)
    before = 32 * count + 1 - count * np.arange(32)
    np.testing.assert_array_equal(out[0], before)
    assert (out[1] == 1).all()
    assert [it.kind for it in report.findings] == ["invalid-barrier"]
    assert ".noComplete, and completes" in report.findings[0].message


def test_dropped_threads_are_not_awaited_again(execute: Execute) -> None:
    out = np.full((3, 32), 9, "u4")
    body = (
        init(32)
        + f"""
      setp.lt.u32 %p3, %r99, 20; @!%p3 mbarrier.arrive_drop.shared.b64 %d2, [%r10];
      {parity(0)} {show(0)} @%p3 mbarrier.arrive.shared.b64 %d3, [%r10]; {parity(0)} {show(1)}
      @%p3 mbarrier.arrive.shared.b64 %d3, [%r10]; {parity(1)} {show(2)} ret;"""
    )
    assert execute(body, out).findings == []
    np.testing.assert_array_equal(out[:, 0], [0, 1, 1])


def test_bytes_are_awaited_too(execute: Execute) -> None:
    out = np.full((4, 32), 9, "u4")
    body = (
        init(2)
        + f"""
      @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 96;
      @%p1 mbarrier.arrive.shared.b64 _, [%r10]; {parity(0)} {show(0)}
      @%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], 64; {parity(0)} {show(1)}
      @%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r10], 16;
      @%p1 mbarrier.complete_tx.shared.b64 [%r10], 32; {parity(0)} {show(2)}
      @%p1 mbarrier.complete_tx.shared.b64 [%r10], 16;
      mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r10], 0, 100;
      selp.u32 %r5, 1, 0, %p2; {show(3)} ret;"""
    )
    assert execute(body, out).findings == []
    np.testing.assert_array_equal(out[:, 7], [0, 0, 0, 1])


def test_generic_addresses(execute: Execute) -> None:
    out = np.full((1, 32), 9, "u4")
    body = f"""{SETUP} cvt.u64.u32 %d5, %r10; cvta.shared.u64 %d5, %d5;
      @%p1 mbarrier.init.b64 [%d5], 32; bar.sync 0; mbarrier.arrive.b64 %d2, [%d5];
      mbarrier.try_wait.b64 %p2, [%d5], %d2; selp.u32 %r5, 1, 0, %p2; {show(0)} ret;"""
    assert execute(body, out, checks=True).findings == []
    assert (out == 1).all()


@pytest.mark.parametrize(("noinc", "count"), [("", 32), (".noinc", 64)])
def test_copies_arrive_when_they_land(execute: Execute, noinc: str, count: int) -> None:
    """Without .noinc the arrival of the copies counts itself in; the barrier does not plan it."""
    x, out = np.arange(32, dtype="u4") + 500, np.full((2, 32), 9, "u4")
    body = f"""{SETUP} @%p1 mbarrier.init.shared.b64 [%r10], {count}; bar.sync 0;
      ld.param.u64 %d4, [p1]; add.s64 %d4, %d4, %d99; shl.b32 %r12, %r99, 2; mov.u32 %r13, s;
      xor.b32 %r14, %r12, 124; add.u32 %r14, %r14, %r13; add.u32 %r13, %r13, %r12;
      cp.async.ca.shared.global [%r13], [%d4], 4;
      cp.async.mbarrier.arrive{noinc}.shared.b64 [%r10];
      mbarrier.arrive.shared.b64 %d2, [%r10]; {waiting("%d2")} {show(0)}
      ld.shared.u32 %r5, [%r14]; {show(1)} ret;"""
    report = execute(body, out, x, checks=True)
    assert report.findings == []
    assert (out[0] == 1).all()
    np.testing.assert_array_equal(out[1], x[::-1])


def test_copies_without_a_look_at_the_barrier_have_not_landed(execute: Execute) -> None:
    x, out = np.arange(32, dtype="u4") + 500, np.full((1, 32), 9, "u4")
    body = f"""{init(32)} ld.param.u64 %d4, [p1]; add.s64 %d4, %d4, %d99; shl.b32 %r12, %r99, 2;
      mov.u32 %r13, s; add.u32 %r13, %r13, %r12; cp.async.ca.shared.global [%r13], [%d4], 4;
      cp.async.mbarrier.arrive.shared.b64 [%r10]; mbarrier.arrive.shared.b64 %d2, [%r10];
      ld.shared.u32 %r5, [%r13]; {show(0)} ret;"""
    report = execute(body, out, x, checks=True)
    assert [it.kind for it in report.findings] == ["async-read"]


ORDER = """
  mov.u32 %r13, s; shl.b32 %r12, %r99, 2; add.u32 %r14, %r13, %r12; xor.b32 %r12, %r12, 252;
  add.u32 %r15, %r13, %r12; st.shared.u32 [%r14], %r99; mbarrier.arrive{arrive}.b64 %d2, [%r10];
  WAIT: mbarrier.try_wait{wait}.b64 %p2, [%r10], %d2; {branch}
  ld.shared.u32 %r5, [%r15];
"""


@pytest.mark.parametrize(
    ("arrive", "wait", "branch", "kinds"),
    [
        (".shared", ".shared", "@!%p2 bra WAIT;", []),
        (".release.cta.shared::cta", ".acquire.cta.shared::cta", "@!%p2 bra WAIT;", []),
        (".relaxed.cta.shared::cta", ".acquire.cta.shared::cta", "@!%p2 bra WAIT;", ["race"]),
        (".release.cta.shared::cta", ".relaxed.cta.shared::cta", "@!%p2 bra WAIT;", ["race"]),
    ],
)
@pytest.mark.parametrize("seed", [None, 4])
def test_order_of_warps(
    execute: Execute, arrive: str, wait: str, branch: str, kinds: list[str], seed: int | None
) -> None:
    how = {} if seed is None else {"schedule": "random", "seed": seed}
    out = np.full((1, 64), 99, "u4")
    body = init(64) + ORDER.format(arrive=arrive, wait=wait, branch=branch) + show(0) + "ret;"
    report = execute(body, out, block=(64,), checks=True, **how)
    assert [it.kind for it in report.findings] == kinds
    np.testing.assert_array_equal(out[0], np.arange(64)[::-1])


def test_who_does_not_wait_races(execute: Execute) -> None:
    out = np.full((1, 64), 99, "u4")
    text = ORDER.format(arrive=".shared", wait=".shared", branch="")
    body = init(64) + text.partition("WAIT")[0] + "ld.shared.u32 %r5, [%r15];" + show(0) + "ret;"
    report = execute(body, out, block=(64,), checks=True)
    assert [it.kind for it in report.findings] == ["race"]


def test_an_arrival_that_is_missing_is_a_deadlock(execute: Execute) -> None:
    body = (
        init(33)
        + """mbarrier.arrive.shared.b64 %d2, [%r10];
      WAIT: mbarrier.try_wait.shared.b64 %p2, [%r10], %d2; @!%p2 bra WAIT; ret;"""
    )
    report = execute(body, np.zeros(32, "u4"), checks=True)
    assert not report.completed
    (found,) = report.findings
    assert found.kind == "deadlock"
    assert "32 lanes wait at the mbarrier at 0x0, to which 32 of 33 arrivals" in found.message


def test_who_waits_for_a_phase_of_the_wrong_parity_is_told_how_many_have_ended(
    execute: Execute,
) -> None:
    arrive = "mbarrier.arrive.shared.b64 _, [%r10];"
    body = init(32) + f"{arrive} {arrive} WAIT: {parity(0)} @!%p2 bra WAIT; ret;"
    (found,) = execute(body, np.zeros(32, "u4"), checks=True).findings
    assert "to which 0 of 32 arrivals have come; 2 of its phases have ended" in found.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mbarrier.arrive.shared.b64 %d2, [%r10];", "no mbarrier lies at 0x0"),
        (parity(0), "no mbarrier lies at 0x0"),
        (
            "@%p1 mbarrier.init.shared.b64 [%r10], 4; bar.sync 0;"
            "@%p1 mbarrier.arrive.shared.b64 %d2, [%r10], 5;",
            "more arrive at the mbarrier at 0x0",
        ),
        (
            "@%p1 mbarrier.init.shared.b64 [%r10], 4; @%p1 mbarrier.inval.shared.b64 [%r10];"
            "@%p1 mbarrier.arrive.shared.b64 %d2, [%r10];",
            "no mbarrier lies at 0x0",
        ),
        ("mov.u32 %r1, 0; @%p1 mbarrier.init.shared.b64 [%r10], %r1;",
         "its count 0 must be 1 to 1,048,575"),
        ("mov.u32 %r1, 1048576; @%p1 mbarrier.init.shared.b64 [%r10], %r1;",
         "its count 1,048,576 must be"),
        (f"{ONE} mov.u32 %r1, 0; @%p1 mbarrier.arrive.shared.b64 _, [%r10], %r1;",
         "its count 0 must be"),
        (f"{ONE} mov.u32 %r1, -16; @%p1 mbarrier.expect_tx.shared.b64 [%r10], %r1;",
         "its number of bytes 4,294,967,280 must be 0 to 1,048,575"),
        (f"{ONE} @%p1 mbarrier.expect_tx.shared.b64 [%r10], 1048575;"
         "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 16;",
         "the bytes that are missing at the mbarrier at 0x0 must be 1,048,575 at most"),
        (f"{ONE} @%p1 mbarrier.expect_tx.shared.b64 [%r10], 16;"
         "@%p1 mbarrier.init.shared.b64 [%r10], 1;", "the mbarrier at 0x0, which is in use"),
    ],
)  # fmt: skip
def test_misuse(execute: Execute, body: str, message: str) -> None:
    report = execute(f"{SETUP} {body} ret;", np.zeros(32, "u4"), checks=True)
    (found,) = report.findings
    assert found.kind == "invalid-barrier"
    assert message in found.message


@pytest.mark.parametrize(
    "between",
    [
        "",  # idle: a GPU takes it
        f"{ONE} @%p1 mbarrier.expect_tx.shared.b64 [%r10], 16; mbarrier.inval.shared.b64 [%r10];",
        f"{ONE} @%p1 mbarrier.arrive.shared.b64 _, [%r10];",  # its phase has ended
        f"{ONE} mov.b64 %d2, 0x4000000040000000; @%p1 st.shared.b64 [%r10], %d2;",  # 2.0, twice
    ],
)
def test_what_may_be_made_anew(execute: Execute, between: str) -> None:
    """Also memory that data was written to since; its bits may look like an mbarrier's."""
    body = f"{SETUP} {between} bar.sync 0; @%p1 mbarrier.init.shared.b64 [%r10], 1; ret;"
    assert execute(body, np.zeros(32, "u4"), checks=True).findings == []


def test_use_before_the_block_knows_of_it_races(execute: Execute) -> None:
    body = (
        f"{SETUP} @%p1 mbarrier.init.shared.b64 [%r10], 64; mbarrier.arrive.shared.b64 %d2, [%r10];"
    )
    report = execute(f"{body} ret;", np.zeros(64, "u4"), block=(64,), checks=True)
    assert [it.kind for it in report.findings] == ["race"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mbarrier.init.shared.b64 [%r10], 0;", "0 must be 1 to 1,048,575"),
        ("mbarrier.arrive.expect_tx.shared.b64 _, [%r10];", "one number"),
        ("mbarrier.test_wait.shared.b64 %p2, [%r10], %d2, 5;", "try_wait alone"),
        ("mbarrier.test_wait.parity.shared.b64 %p2, [%r10], 2;", "the parity 2 must be 0 or 1"),
        ("mbarrier.arrive.shared::cluster.b64 %d2, [%r10];", "there is no token"),
        ("mbarrier.arrive.noComplete.shared::cluster.b64 _, [%r10], 1;", "noComplete does not go"),
        ("mbarrier.init.shared::cluster.b64 [%r10], 1;", "does not model"),
        ("mbarrier.inval.shared::cluster.b64 [%r10];", "does not model"),
        ("mbarrier.try_wait.parity.shared::cluster.b64 %p2, [%r10], 0;", "does not model"),
        ("cp.async.mbarrier.arrive.shared::cluster.b64 [%r10];", "does not model"),
        ("mbarrier.arrive.acquire.cta.shared.b64 %d2, [%r10];", "does not model"),
    ],
)
def test_forms_that_there_are_not(execute: Execute, text: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        execute(f"{SETUP} {text} ret;", np.zeros(32, "u4"))
