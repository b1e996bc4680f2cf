"""Order within a warp and within a block, and reads of what nobody wrote: the bug and its mend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Execute = Callable[..., Any]
ORDERS = [{}, *({"schedule": "random", "seed": seed} for seed in (1, 2, 3))]
# Lane t's own word is at %r50, the next one's at %r51; the flag, a word of its own, at %r60.
OWN = (
    ".shared .align 16 .b8 s[4096];\nmov.u32 %r60, s; shl.b32 %r49, %r99, 2;\n"
    "add.u32 %r50, %r60, %r49; add.u32 %r50, %r50, 1024; add.u32 %r51, %r50, 4;\n"
    "setp.eq.u32 %p9, %r99, 0; @%p9 st.shared.u32 [%r60], 0; setp.lt.u32 %p8, %r99, 31;\n"
)

pytestmark = pytest.mark.parametrize("order", ORDERS, ids=str)


def kinds(execute: Execute, body: str, *args: Any, **how: Any) -> set[str]:
    report = execute(body, *args, checks=True, **how)
    assert report.completed
    return {finding.kind for finding in report.findings}


# --- volatile in one warp ---------------------------------------------------------------


@pytest.mark.parametrize("first", ["write", "read"])
def test_volatile_orders_no_lanes(execute: Execute, order: Any, first: str) -> None:
    write, read = "st.volatile.shared.u32 [%r50], %r99;", "@%p8 ld.volatile.shared.u32 %r1, [%r51];"
    start, one, two = OWN, write, read
    if first == "read":
        start, one, two = f"{OWN}{write}\nbar.sync 0;\n", read, write
    assert kinds(execute, f"{start}{one}\n{two}", **order) == {"race"}
    mended = f"{start}{one}\nbar.warp.sync 0xffffffff;\n{two}"
    assert kinds(execute, mended, **order) == set()


def test_a_loop_that_does_not_depend_on_it_polls_nothing(execute: Execute, order: Any) -> None:
    body = (
        f"{OWN}st.volatile.shared.u32 [%r50], %r99; mov.u32 %r2, 0;\n"
        "L: @%p8 ld.volatile.shared.u32 %r1, [%r51];\n{sync}"
        "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 3; @%p1 bra L;"
    )
    assert kinds(execute, body.replace("{sync}", ""), **order) == {"race"}
    body = body.replace("L: ", "bar.warp.sync 0xffffffff;\nL: ").replace("{sync}", "")
    assert kinds(execute, body, **order) == set()


def test_lanes_may_poll_a_volatile_flag(execute: Execute, order: Any) -> None:
    """Lane 0 sets it, the other lanes of the warp wait for it."""
    body = (
        f"{OWN}bar.sync 0;\n@%p9 st.volatile.shared.u32 [%r60], 1;\n"
        "L: ld.volatile.shared.u32 %r1, [%r60]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;"
    )
    assert kinds(execute, body, **order) == set()


def test_volatile_words_of_other_warps_and_atomics_do_not_race(
    execute: Execute, order: Any
) -> None:
    body = (
        f"{OWN}bar.sync 0;\natom.shared.add.u32 %r1, [%r60], 1;\n"
        "ld.volatile.shared.u32 %r2, [%r60];\nst.relaxed.cta.shared.u32 [%r60], 5;"
    )
    assert kinds(execute, body, block=(64,), **order) == set()


# --- atomics of unset memory ------------------------------------------------------------


@pytest.mark.parametrize("what", ["atom.shared.add.u32 %r1,", "red.shared.max.u32"])
def test_an_atomic_reads_what_it_changes(execute: Execute, order: Any, what: str) -> None:
    change = f"{what} [%r50], 1;"
    assert kinds(execute, OWN + change, **order) == {"uninitialised"}
    assert kinds(execute, f"{OWN}st.shared.u32 [%r50], 0;\n{change}", **order) == set()


def test_an_exchange_writes(execute: Execute, order: Any) -> None:
    assert kinds(execute, f"{OWN}atom.shared.exch.b32 %r1, [%r50], 1;", **order) == set()


def test_an_atomic_reads_an_output(execute: Execute, order: Any) -> None:
    body = "mov.f32 %f1, 0f3F800000; add.u64 %d1, %d0, %d99; red.global.add.f32 [%d1], %f1;"
    unset = np.full(32, np.nan, np.float32)
    assert kinds(execute, body, unset, **order) == {"uninitialised"}
    assert kinds(execute, body, np.zeros(32, np.float32), **order) == set()
    cleared = "mov.f32 %f2, 0f00000000; add.u64 %d1, %d0, %d99; st.global.f32 [%d1], %f2;\n"
    assert kinds(execute, cleared + body, np.full(32, np.nan, np.float32), **order) == set()


# --- local memory -----------------------------------------------------------------------

LOCAL = ".local .align 16 .b8 mine[64];\nst.local.u32 [mine], 7; mov.u16 %h1, 1;\n"
OUT = "add.u64 %d1, %d0, %d99; add.u64 %d1, %d1, %d99;\n"  # 8 bytes of a lane


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("ld.local.u32 %r1, [mine]; add.u32 %r2, %r1, 1;", set()),
        ("ld.local.u32 %r1, [mine+4]; add.u32 %r2, %r1, 1;", {"uninitialised"}),
        ("ld.local.u32 %r1, [mine+4]; mov.u32 %r3, %r1; add.u32 %r2, %r3, 1;", {"uninitialised"}),
        ("ld.local.u32 %r1, [mine+4]; st.global.u32 [%d1], %r1;", {"uninitialised"}),
        ("ld.local.u32 %r1, [mine+4]; st.local.u32 [mine+16], %r1;", set()),
        ("ld.local.v2.u32 {%r1, %r2}, [mine]; add.u32 %r3, %r1, 1;", set()),
        ("ld.local.v2.u32 {%r1, %r2}, [mine]; add.u32 %r3, %r2, 1;", {"uninitialised"}),
        ("ld.local.u64 %d2, [mine]; add.u64 %d3, %d2, 1;", {"uninitialised"}),
        ("ld.local.u64 %d2, [mine]; mov.u64 %d3, %d2; st.global.u64 [%d1], %d3;", set()),
        ("@%p1 st.local.u32 [mine+4], 1; @%p1 ld.local.u32 %r1, [mine+4]; "
         "@%p1 add.u32 %r2, %r1, 1;", set()),
        ("@%p1 st.local.u32 [mine+4], 1; ld.local.u32 %r1, [mine+4]; add.u32 %r2, %r1, 1;",
         {"uninitialised"}),
        ("mov.u64 %d4, mine; cvta.local.u64 %d5, %d4; ld.u32 %r1, [%d5+4]; add.u32 %r2, %r1, 1;",
         {"uninitialised"}),
        ("mov.u64 %d4, mine; cvta.local.u64 %d5, %d4; st.u16 [%d5+4], %h1; st.u16 [%d5+6], %h1; "
         "ld.u32 %r1, [%d5+4]; add.u32 %r2, %r1, 1;", set()),
    ],
)  # fmt: skip
def test_local_memory(execute: Execute, order: Any, body: str, found: set[str]) -> None:
    start = f"{LOCAL}{OUT}setp.lt.u32 %p1, %r99, 9;\n"
    out = np.zeros(64, np.uint64)
    assert kinds(execute, start + body, out, **order) == found


def test_local_memory_says_what_was_not_written(execute: Execute, order: Any) -> None:
    body = f"{LOCAL}ld.local.u32 %r1, [mine+4]; add.u32 %r2, %r1, 1;"
    (finding,) = execute(body, checks=True, **order).findings
    assert (
        "ld.local.u32 reads local memory that this thread never wrote: address 0x4"
        in finding.message
    )
    assert execute(body, **order).findings == []  # the checks are off


# --- flags between the warps of a block -------------------------------------------------

FENCE = "fence.acq_rel.cta;"
GO_ON = "bar.sync 0;\nsetp.ge.u32 %p2, %r99, 32; @%p2 bra CONSUMER;\n"
WAYS = {  # how the producer sets the flag, and how the consumer polls it, without their fences
    "volatile": ("st.volatile.{space}.u32 [{flag}], 1;", "ld.volatile.{space}.u32 %r1, [{flag}];"),
    "relaxed": ("st.relaxed.cta.{space}.u32 [{flag}], 1;",
                "ld.relaxed.cta.{space}.u32 %r1, [{flag}];"),
    "atomic": ("red.{space}.add.u32 [{flag}], 1;", "atom.{space}.or.b32 %r1, [{flag}], 0;"),
    "exchange": ("atom.{space}.exch.b32 %r9, [{flag}], 1;",
                 "ld.volatile.{space}.u32 %r1, [{flag}];"),
}  # fmt: skip
SHARED = {"space": "shared", "flag": "%r60"}
GLOBAL = {"space": "global", "flag": "%d0"}


def handed_over(tell: str, hear: str, behind: str, where: dict[str, str]) -> str:
    """Warp 0 writes a word and sets the flag; warp 1 waits for it and reads the word."""
    return (
        f"{OWN}{GO_ON}st.shared.u32 [%r50], 5;\n{tell}\nbra END;\n"
        f"CONSUMER: {hear} setp.eq.u32 %p1, %r1, 0; @%p1 bra CONSUMER;\n"
        f"{behind} ld.shared.u32 %r2, [%r50-128]; add.u32 %r3, %r2, 1;\nEND: ret;"
    ).format(**where)


@pytest.mark.parametrize("where", [SHARED, GLOBAL], ids=["shared", "global"])
@pytest.mark.parametrize("way", WAYS)
def test_a_flag_orders_two_warps(execute: Execute, order: Any, way: str, where: Any) -> None:
    def found(before: str, behind: str) -> set[str]:
        tell, hear = WAYS[way]
        body = handed_over(f"{before} @%p9 {tell}", hear, behind, where)
        return kinds(execute, body, np.zeros(1, np.uint32), block=(64,), **order)

    assert found(FENCE, FENCE) == set()
    assert found("membar.cta;", "membar.gl;") == set()
    assert found("", FENCE) == {"race"}
    assert found(FENCE, "") == {"race"}
    assert found("", "") == {"race"}


@pytest.mark.parametrize("where", [SHARED, GLOBAL], ids=["shared", "global"])
def test_release_and_acquire_need_no_fences(execute: Execute, order: Any, where: Any) -> None:
    def found(tell: str, hear: str) -> set[str]:
        body = handed_over(tell, hear, "", where)
        return kinds(execute, body, np.zeros(1, np.uint32), block=(64,), **order)

    store = "@%p9 st.release.cta.{space}.u32 [{flag}], 1;"
    load = "ld.acquire.cta.{space}.u32 %r1, [{flag}];"
    assert found(store, load) == set()
    atomics = ("@%p9 atom.acq_rel.cta.{space}.add.u32 %r9, [{flag}], 1;",
               "atom.acquire.cta.{space}.cas.b32 %r1, [{flag}], 7, 8;")  # fmt: skip
    assert found(*atomics) == set()
    assert found(store.replace("release", "relaxed"), load) == {"race"}
    assert found(store, load.replace("acquire", "relaxed")) == {"race"}


def test_what_comes_behind_the_fence_is_not_told(execute: Execute, order: Any) -> None:
    tell, hear = WAYS["volatile"]
    body = handed_over(f"{FENCE}\nst.shared.u32 [%r50], 6;\n@%p9 {tell}", hear, FENCE, SHARED)
    assert kinds(execute, body, block=(64,), **order) == {"race"}


def test_a_barrier_behind_the_flag_stands_for_the_fence(execute: Execute, order: Any) -> None:
    tell, hear = WAYS["volatile"]
    body = handed_over(f"{FENCE} @%p9 {tell}", hear, "bar.sync 1, 32;", SHARED)
    assert kinds(execute, body, block=(64,), **order) == set()


@pytest.mark.parametrize("missing", [None, "full", "empty"])
def test_a_ring_of_flags(execute: Execute, order: Any, missing: str | None) -> None:
    """Warp 0 fills one slot for warps 1 and 2 again and again; warp 3 has no part in it."""
    fences = {name: "" if name == missing else FENCE for name in ("full", "empty")}
    body = (
        ".shared .align 16 .b8 s[4096];\nmov.u32 %r60, s; and.b32 %r48, %r99, 31;\n"
        "shl.b32 %r49, %r48, 2; add.u32 %r50, %r60, 1024; add.u32 %r51, %r50, %r49;\n"
        "setp.lt.u32 %p9, %r99, 2; shl.b32 %r47, %r99, 2; add.u32 %r47, %r47, %r60;\n"
        "@%p9 st.shared.u32 [%r47], 0; shr.u32 %r46, %r99, 5; setp.eq.u32 %p8, %r48, 0;\n"
        "mov.u32 %r5, 0; bar.sync 0; setp.eq.u32 %p1, %r46, 3; @%p1 bra END;\n"
        "setp.ne.u32 %p1, %r46, 0; @%p1 bra CONSUMER;\n"
        "PRODUCER: shl.b32 %r6, %r5, 1;\n"
        "EMPTY: ld.volatile.shared.u32 %r1, [%r60+4]; setp.lt.u32 %p2, %r1, %r6; @%p2 bra EMPTY;\n"
        f"{FENCE} st.shared.u32 [%r51], %r5; {fences['full']} bar.warp.sync 0xffffffff;\n"
        "add.u32 %r5, %r5, 1; @%p8 st.volatile.shared.u32 [%r60], %r5;\n"
        "setp.lt.u32 %p2, %r5, 4; @%p2 bra PRODUCER; bra END;\n"
        "CONSUMER: ld.volatile.shared.u32 %r1, [%r60]; setp.le.u32 %p2, %r1, %r5;\n"
        "@%p2 bra CONSUMER;\n"
        f"{FENCE} ld.shared.u32 %r2, [%r51]; ld.shared.u32 %r3, [%r50];\n"
        f"{fences['empty']} bar.warp.sync 0xffffffff; @%p8 red.shared.add.u32 [%r60+4], 1;\n"
        "add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 4; @%p2 bra CONSUMER;\nEND: ret;"
    )
    found = kinds(execute, body, block=(128,), grid=(3,), **order)
    assert found == ({"race"} if missing else set())


def test_a_flag_reaches_another_block_through_a_warp(execute: Execute, order: Any) -> None:
    """Warp 1 fences often and hands over to warp 0, which fenced once and tells block 1."""
    body = (
        f"{OWN}mov.u32 %r40, %ctaid.x; setp.ne.u32 %p7, %r40, 0; bar.sync 0; @%p7 bra OTHER;\n"
        "setp.lt.u32 %p1, %r99, 32; @%p1 bra FIRST;\n"
        f"{FENCE}{FENCE}{FENCE} add.u64 %d1, %d0, %d99; st.global.u32 [%d1], 5; {FENCE}\n"
        "st.volatile.shared.u32 [%r60], 1; bra END;\n"
        "FIRST: ld.volatile.shared.u32 %r1, [%r60]; setp.eq.u32 %p1, %r1, 0; @%p1 bra FIRST;\n"
        "fence.acq_rel.gpu; @%p9 st.volatile.global.u32 [%d0], 1; bra END;\n"
        "OTHER: ld.volatile.global.u32 %r1, [%d0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra OTHER;\n"
        "fence.acq_rel.gpu; ld.global.u32 %r2, [%d0+200]; add.u32 %r3, %r2, 1;\nEND: ret;"
    )
    words = np.zeros(64, np.uint32)
    assert kinds(execute, body, words, block=(64,), grid=(2,), **order) == set()


def test_atomics_of_one_step_follow_each_other(execute: Execute, order: Any) -> None:
    """Each warp writes, fences and takes a ticket; the one with the last ticket reads it all."""
    body = (
        f"{OWN}st.shared.u32 [%r50], %r99; mov.u32 %r1, 0;\n"
        "and.b32 %r48, %r99, 31; setp.eq.u32 %p8, %r48, 0;\n"
        "{fence} bar.warp.sync 0xffffffff; @%p8 atom.global.add.u32 %r1, [%d0], 1;\n"
        "setp.eq.u32 %p1, %r1, 3; @!%p1 bra END;\nfence.acq_rel.cta;\n"
        "ld.shared.u32 %r2, [%r60+1024]; ld.shared.u32 %r3, [%r60+1408]; add.u32 %r4, %r2, %r3;\n"
        "END: ret;"
    )
    for fence, found in (("fence.acq_rel.cta;", set()), ("", {"race"})):
        text = body.replace("{fence}", fence)
        assert kinds(execute, text, np.zeros(1, np.uint32), block=(128,), **order) == found
