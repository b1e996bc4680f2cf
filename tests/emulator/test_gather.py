"""Lanes of a warp that an instruction names come together before it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Execute = Callable[..., Any]

HALF = "setp.lt.u32 %p1, %r99, 16; add.u64 %d1, %d0, %d99; mov.u32 %r1, %r99;\n"
SHUFFLE = "shfl.sync.bfly.b32 %r2, %r1, 16, 31, {mask};"


@pytest.fixture(params=[None, 1, 2, 3])
def launch(execute: Execute, request: pytest.FixtureRequest) -> Execute:
    def run(body: str, threads: int = 32) -> tuple[list[int], list[tuple[str, str]]]:
        out = np.full(threads, 99, np.uint32)
        order = {} if request.param is None else {"schedule": "random", "seed": request.param}
        report = execute(HALF + body, out, block=(threads,), checks=True, **order)
        assert report.completed
        return out.tolist(), [(it.kind, it.message) for it in report.findings]

    return run


def test_a_path_laid_out_behind_the_join_is_waited_for(launch: Execute) -> None:
    """Compilers move rare paths to the end of a function."""
    out, findings = launch(
        "@%p1 bra RARE;\nJOIN: " + SHUFFLE.format(mask="0xffffffff") + "st.global.u32 [%d1], %r2;\n"
        "ret;\nRARE: add.u32 %r1, %r1, 100; bra JOIN;"
    )
    assert out == [*range(16, 32), *range(100, 116)]
    assert findings == []


def test_halves_on_two_paths_under_their_own_masks(launch: Execute) -> None:
    out, findings = launch(
        "@%p1 bra LOW;\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffff0000; bra JOIN;\n"
        "LOW: shfl.sync.bfly.b32 %r2, %r1, 2, 31, 0xffff;\nJOIN: st.global.u32 [%d1], %r2;"
    )
    assert out == [lane ^ (2 if lane < 16 else 1) for lane in range(32)]
    assert findings == []


def test_masks_of_halves_in_one_instruction(launch: Execute) -> None:
    out, findings = launch(
        "selp.u32 %r3, 0xffff, 0xffff0000, %p1; shfl.sync.bfly.b32 %r2, %r1, 1, 31, %r3;\n"
        "mov.u32 %r3, -1; vote.sync.ballot.b32 %r3, %p1, %r3; add.u32 %r2, %r2, %r3;\n"
        "st.global.u32 [%d1], %r2;"
    )
    assert out == [(lane ^ 1) + 0xFFFF for lane in range(32)]
    assert findings == []


def test_lanes_that_have_ended_are_not_waited_for(launch: Execute) -> None:
    out, findings = launch(
        "@!%p1 bra OUT; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;st.global.u32 [%d1], %r2;\nOUT: ret;"
    )
    assert out[:16] == [lane ^ 1 for lane in range(16)]
    assert findings == []


def test_named_lanes_on_another_path(launch: Execute) -> None:
    body = (
        "@!%p1 bra OTHER;\n{shuffle} st.global.u32 [%d1], %r2; bra OUT;\n"
        "OTHER: st.global.u32 [%d1], 7;\nOUT: ret;"
    )
    full = "shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffffffff;"
    out, findings = launch(body.replace("{shuffle}", full))
    assert out == [lane ^ 1 for lane in range(16)] + [7] * 16
    ((kind, message),) = findings
    assert kind == "inactive-lane"
    assert "its member mask names lane 16 and 15 more, on another path" in message
    half = full.replace("0xffffffff", "0xffff")
    assert launch(body.replace("{shuffle}", half))[1] == []


def test_two_paths_that_wait_for_each_other(launch: Execute) -> None:
    _, findings = launch(
        "@%p1 bra LOW;\nvote.sync.ballot.b32 %r2, %p1, -1; bra OUT;\n"
        "LOW: vote.sync.ballot.b32 %r2, %p1, -1;\nOUT: st.global.u32 [%d1], %r2;"
    )
    assert "inactive-lane" in [kind for kind, _ in findings]


def test_a_loop_that_lanes_leave_one_by_one(launch: Execute) -> None:
    loop = (
        "mov.u32 %r3, %r99;\nNEXT: {warp} add.u32 %r3, %r3, 8; setp.lt.u32 %p2, %r3, 34;\n"
        "@%p2 bra NEXT;\nst.global.u32 [%d1], %r3;"
    )
    _, findings = launch(loop.replace("{warp}", "bar.warp.sync 0xffffffff;"))
    assert [kind for kind, _ in findings] == ["inactive-lane"]
    active = "activemask.b32 %r4; bar.warp.sync %r4;"
    assert launch(loop.replace("{warp}", active))[1] == []


def test_a_mask_names_who_executes_it(launch: Execute) -> None:
    _, findings = launch("bar.warp.sync 0xffff;")
    ((kind, message),) = findings
    assert kind == "inactive-lane"
    assert "does not name the lane that executes it" in message
    assert "lane 16)" in message


def test_a_guard_takes_lanes_out(launch: Execute) -> None:
    """The guard decides who executes, as a branch around the instruction would."""
    vote = "mov.u32 %r2, 7; @%p1 vote.sync.ballot.b32 %r2, %p1, {mask};\n{behind}"
    behind = "vote.sync.ballot.b32 %r3, %p1, -1; add.u32 %r2, %r2, %r3; st.global.u32 [%d1], %r2;"
    out, findings = launch(vote.format(mask="0xffff", behind=behind))
    assert out == [2 * 0xFFFF] * 16 + [7 + 0xFFFF] * 16
    assert findings == []
    ((kind, message),) = launch(vote.format(mask="-1", behind=behind))[1]
    assert kind == "inactive-lane"
    assert "names lane 16 and 15 more" in message


def test_lanes_at_a_barrier_do_not_come(launch: Execute) -> None:
    _, findings = launch(
        "@!%p1 bra WAIT;\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\nWAIT: bar.sync 0;", threads=64
    )
    assert findings[0][0] == "inactive-lane"


def test_whole_warps_have_no_lanes_that_ended(launch: Execute) -> None:
    matrix = (
        ".shared .align 16 .b8 s[512]; mov.u32 %r50, s; shl.b32 %r51, %r99, 4; and.b32 %r51, %r51,"
        " 511; add.u32 %r50, %r50, %r51; st.shared.v4.u32 [%r50], {%r1, %r1, %r1, %r1};\n"
        "bar.warp.sync -1;\n{skip}ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r50];\n"
        "OUT: ret;"
    )
    assert launch(matrix.replace("{skip}", ""))[1] == []
    ((kind, message),) = launch(matrix.replace("{skip}", "@!%p1 bra OUT;\n"))[1]
    assert kind == "divergent-aligned"
    assert "lane 16 and 15 more took another path" in message
