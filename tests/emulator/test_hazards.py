"""What is wrong although the result may be right: each kind by the smallest kernel that has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError

Execute = Callable[..., Any]
WORDS = ".shared .align 16 .b8 s[4096];"


def kinds(report: Any) -> list[str]:
    return [finding.kind for finding in report.findings]


def shared(execute: Execute, body: str, **how: Any) -> Any:
    """Lane t's own word is at %r50, the next one's at %r51, the next warp's at %r52."""
    start = (
        f"{WORDS}\nmov.u32 %r50, s; shl.b32 %r49, %r99, 2; add.u32 %r50, %r50, %r49;\n"
        "add.u32 %r51, %r50, 4; add.u32 %r52, %r50, 128;\n"
    )
    return execute(start + body, block=(64,), checks=True, **how)


def test_words_of_other_warps_need_a_barrier(execute: Execute) -> None:
    write, read = (
        "st.shared.u32 [%r50], %r99;",
        "setp.lt.u32 %p1, %r99, 32; @%p1 ld.shared.u32 %r1, [%r52];",
    )
    report = shared(execute, f"{write}\n{read}")
    (finding,) = report.findings
    assert (finding.kind, finding.warp, finding.lane) == ("race", 0, 0)
    assert finding.other_line == finding.line - 1
    assert kinds(shared(execute, f"{write}\nbar.sync 0;\n{read}")) == []


def test_a_write_needs_a_barrier_behind_the_reads(execute: Execute) -> None:
    start = (
        "st.shared.u32 [%r50], %r99;\nbar.sync 0;\n"
        "setp.lt.u32 %p1, %r99, 32;\n@%p1 ld.shared.u32 %r1, [%r52];\n"
    )
    write = "@!%p1 st.shared.u32 [%r50], 0;"
    assert kinds(shared(execute, f"{start}{write}")) == ["race"]
    assert kinds(shared(execute, f"{start}bar.sync 0;\n{write}")) == []


def test_words_of_other_lanes_need_a_syncwarp(execute: Execute) -> None:
    write, read = (
        "st.shared.u32 [%r50], %r99;",
        "setp.lt.u32 %p1, %r99, 31; @%p1 ld.shared.u32 %r1, [%r51];",
    )
    assert kinds(shared(execute, f"{write}\n{read}")) == ["race"]
    assert kinds(shared(execute, f"{write}\nbar.warp.sync 0xffffffff;\n{read}")) == []


def test_a_lane_s_own_words_need_nothing(execute: Execute) -> None:
    assert kinds(shared(execute, "st.shared.u32 [%r50], 1; ld.shared.u32 %r1, [%r50];")) == []


def test_halves_of_a_word_are_two_places(execute: Execute) -> None:
    body = (
        "shl.b32 %r48, %r99, 1; mov.u32 %r47, s; add.u32 %r47, %r47, %r48; mov.u16 %h1, 7;\n"
        "st.shared.u16 [%r47], %h1; ld.shared.u16 %h2, [%r47];"
    )
    assert kinds(shared(execute, body)) == []


def test_atomics_do_not_race_with_each_other_but_with_stores(execute: Execute) -> None:
    clear = "setp.eq.u32 %p1, %r99, 0; mov.u32 %r47, s; @%p1 st.shared.u32 [%r47], 0;\n"
    add = "atom.shared.add.u32 %r1, [%r47], 1;"
    assert kinds(shared(execute, f"{clear}bar.sync 0;\n{add}")) == []
    assert kinds(shared(execute, f"{clear}{add}")) == ["race"]


def test_a_part_of_the_warps_may_meet(execute: Execute) -> None:
    """A barrier of 64 threads orders its two warps; the third one goes its own way."""
    body = (
        f"{WORDS}\nmov.u32 %r50, s; shl.b32 %r49, %r99, 2; add.u32 %r50, %r50, %r49;\n"
        "setp.ge.u32 %p1, %r99, 64; st.shared.u32 [%r50], %r99; @%p1 bra OUT;\n"
        "bar.sync 1, 64; xor.b32 %r51, %r49, 128; mov.u32 %r52, s; add.u32 %r52, %r52, %r51;\n"
        "ld.shared.u32 %r1, [%r52];\n{more}\nOUT: ret;"
    )
    clean = execute(body.replace("{more}", ""), block=(96,), checks=True)
    assert kinds(clean) == []
    other = "add.u32 %r53, %r50, 0; mov.u32 %r54, s; ld.shared.u32 %r2, [%r54+256];"
    assert kinds(execute(body.replace("{more}", other), block=(96,), checks=True)) == ["race"]


def test_unset_shared_memory(execute: Execute) -> None:
    (finding,) = shared(execute, "ld.shared.u32 %r1, [%r50];").findings
    assert (finding.kind, finding.address) == ("uninitialised", 0)
    assert "shared memory that nobody wrote" in finding.message


HALF = "setp.lt.u32 %p1, %r99, 16; add.u64 %d1, %d0, %d99; @%p1 mov.u32 %r1, 5;\n"


def registers(execute: Execute, body: str, **how: Any) -> Any:
    """%r1 is written in lanes below 16, where %p1 holds; each lane has a word at %d1."""
    return execute(HALF + body, np.zeros(32, np.uint32), **{"checks": True, **how})


def test_unset_registers(execute: Execute) -> None:
    body = "add.u32 %r2, %r1, 1;\nxor.b32 %r2, %r2, 7;\nst.global.u32 [%d1], %r2;"
    (finding,) = registers(execute, body).findings
    assert (finding.kind, finding.lane) == ("uninitialised", 16)
    assert "'add.u32 %r2, %r1, 1': it reads %r1, which nothing wrote" in finding.message
    assert "'st.global.u32 [%d1], %r2' in line" in finding.message
    assert kinds(registers(execute, body.replace("st.", "@%p1 st."))) == []
    assert kinds(registers(execute, body, checks=False)) == []


@pytest.mark.parametrize(
    "use",
    [
        "st.global.u32 [%d1], %r1;",
        "setp.eq.u32 %p2, %r1, 0; @%p2 bra OUT; mov.u32 %r3, 1; OUT: ret;",
        "setp.eq.u32 %p2, %r1, 0; @%p2 st.global.u32 [%d1], 1;",
        "and.b32 %r1, %r1, 4; cvt.u64.u32 %d2, %r1; add.u64 %d2, %d0, %d2;"
        "ld.global.u32 %r2, [%d2];",
        "vote.sync.ballot.b32 %r2, %p2, 0xffffffff;",
        "selp.b32 %r2, %r1, 7, %p3; st.global.u32 [%d1], %r2;",
        "selp.b32 %r2, 7, %r1, %p1; st.global.u32 [%d1], %r2;",
        "shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1; st.global.u32 [%d1], %r2;",
        "mov.b64 %d2, {%r1, %r99}; mov.b64 {%r2, %r3}, %d2; st.global.u32 [%d1], %r2;",
        "atom.global.add.u32 %r2, [%d1], %r1;",
    ],
)
def test_what_uses_unset_registers(execute: Execute, use: str) -> None:
    assert set(kinds(registers(execute, use))) == {"uninitialised"}


@pytest.mark.parametrize(
    "use",
    [
        "add.u32 %r2, %r1, 1; mov.u32 %r1, 3; st.global.u32 [%d1], %r1;",
        "selp.b32 %r2, %r1, 7, %p1; st.global.u32 [%d1], %r2;",
        "shfl.sync.bfly.b32 %r2, %r1, 8, 31, -1; @%p1 st.global.u32 [%d1], %r2;",
        "shfl.sync.idx.b32 %r1, %r1, 3, 31, -1; st.global.u32 [%d1], %r1;",
        "setp.eq.u32 %p2, %r1, 0; mov.b64 %d2, {%r1, %r99};",
        "mov.u32 %r2, 4; @!%p1 mov.u32 %r1, %r2; st.global.u32 [%d1], %r1;",
        "LOOP: add.u32 %r2, %r2, %r1; setp.lt.u32 %p2, %r99, 0; @%p2 bra LOOP; mov.u32 %r2, 0;"
        "st.global.u32 [%d1], %r2;",
    ],
)
def test_unset_registers_that_decide_nothing(execute: Execute, use: str) -> None:
    assert kinds(registers(execute, use)) == []


PAIR = "cvt.u16.u32 %h1, %r99; cvt.u16.u32 %h2, %r1; mov.b32 %r2, {%h1, %h2};\n"


@pytest.mark.parametrize(
    ("use", "half"),  # of %r2 only the low half was written in all lanes
    [
        ("add.f16x2 %r3, %r2, %r2; mov.b32 {%h3, %h4}, %r3;", "low"),
        ("fma.rn.bf16x2 %r3, %r2, %r2, %r2; mov.b32 {%h3, %h4}, %r3;", "low"),
        ("add.u32 %r3, %r2, %r2; mov.b32 {%h3, %h4}, %r3;", "none"),
        ("xor.b32 %r3, %r2, %r99; mov.b32 {%h3, %h4}, %r3;", "low"),
        ("prmt.b32 %r3, %r2, %r99, 0x1054; mov.b32 {%h3, %h4}, %r3;", "both"),
        ("prmt.b32 %r3, %r2, %r99, 0x2150; mov.b32 {%h3, %h4}, %r3;", "low"),
        ("prmt.b32 %r3, %r2, %r99, 0x1253; mov.b32 {%h3, %h4}, %r3;", "none"),
        ("and.b32 %r3, %r2, 0xffff; cvt.u16.u32 %h3, %r3; mov.b32 {_, %h4}, %r3;", "both"),
        ("and.b32 %r3, %r2, 0xff0000; mov.b32 {%h3, %h4}, %r3;", "low"),
        ("shl.b32 %r3, %r2, 16; mov.b32 {%h4, %h3}, %r3;", "both"),
        ("shr.u32 %r3, %r2, 16; mov.b32 {%h4, %h3}, %r3;", "high"),
        ("mov.b32 %r3, %r2; shfl.sync.bfly.b32 %r3, %r3, 16, 31, -1; mov.b32 {%h3, %h4}, %r3;",
         "low"),
        ("cvt.f32.f16 %f1, %h1; cvt.f32.f16 %f2, %h2; cvt.rn.f16x2.f32 %r3, %f2, %f1;"
         "mov.b32 {%h3, %h4}, %r3;", "low"),
    ],
)  # fmt: skip
def test_unset_halves(execute: Execute, use: str, half: str) -> None:
    def stored(register: str) -> list[str]:
        return kinds(registers(execute, f"{PAIR}{use}\nst.global.u16 [%d1], {register};"))

    assert (stored("%h3") == [], stored("%h4") == []) == {
        "low": (True, False),
        "high": (True, False),
        "both": (True, True),
        "none": (False, False),
    }[half]


@pytest.mark.parametrize("by", ["xor.b32 %r1, %r1, %r1;", "sub.u32 %r1, %r1, %r1;"])
def test_a_register_against_itself_is_zero(execute: Execute, by: str) -> None:
    assert (
        kinds(
            execute(
                f"{by} st.global.u32 [%d0], %r1;", np.zeros(1, np.uint32), block=(1,), checks=True
            )
        )
        == []
    )


def test_outputs(execute: Execute) -> None:
    out = np.full(64, np.nan, np.float32)
    store = "add.u64 %d1, %d0, %d99; mov.f32 %f1, 0f3F800000; st.global.f32 [%d1], %f1;"
    (finding,) = execute(store, out, checks=True).findings
    assert (finding.kind, finding.array) == ("unwritten", "p0")
    assert "32 of 64 elements of p0 are never written, first [32]" in finding.message
    whole = np.full(32, np.nan, np.float32)
    assert kinds(execute(store, whole, checks=True)) == []
    read = "add.u64 %d1, %d0, %d99; ld.global.f32 %f1, [%d1]; st.global.f32 [%d1], %f1;"
    assert kinds(execute(read, np.full(32, np.nan, np.float32), checks=True)) == ["uninitialised"]
    assert kinds(execute(read, np.zeros(32, np.float32), checks=True)) == []


def test_blocks_that_write_one_place_race(execute: Execute) -> None:
    add = (
        "ld.global.f32 %f1, [%d0]; mov.f32 %f2, 0f3F800000; "
        "add.f32 %f1, %f1, %f2; st.global.f32 [%d0], %f1;"
    )
    report = execute(add, np.zeros(1, np.float32), grid=(3,), block=(1,), checks=True)
    assert set(kinds(report)) == {"race"}
    assert any("of block" in finding.message for finding in report.findings)
    atomic = "mov.f32 %f2, 0f3F800000; red.global.add.f32 [%d0], %f2;"
    total = np.zeros(1, np.float32)
    assert kinds(execute(atomic, total, grid=(3,), block=(64,), checks=True)) == []
    assert total[0] == 192


def test_lanes_that_store_over_each_other(execute: Execute) -> None:
    out = np.zeros(1, np.uint32)
    (finding,) = execute("st.global.u32 [%d0], %r99;", out, checks=True).findings
    assert finding.kind == "overlap"
    assert kinds(execute("st.global.u32 [%d0], 7;", out, checks=True)) == []  # the same value


def test_cp_async_is_read_before_its_wait(execute: Execute) -> None:
    copy = (
        "add.u64 %d1, %d0, %d99; cp.async.ca.shared.global [%r50], [%d1], 4; "
        "cp.async.commit_group;\n"
    )
    read = "ld.shared.u32 %r1, [%r50];"
    data = np.zeros(64, np.uint32)

    def run(between: str) -> list[str]:
        start = f"{WORDS}\nmov.u32 %r50, s; shl.b32 %r49, %r99, 2; add.u32 %r50, %r50, %r49;\n"
        return kinds(execute(start + copy + between + read, data, block=(64,), checks=True))

    assert run("") == ["async-read"]
    assert run("cp.async.wait_group 1;\n") == ["async-read"]
    assert run("cp.async.wait_group 0;\n") == []


def test_a_shuffle_from_a_lane_that_is_elsewhere(execute: Execute) -> None:
    body = (
        "setp.lt.u32 %p1, %r99, 16; @!%p1 bra OUT; "
        "shfl.sync.down.b32 %r1, %r99, {by}, 31, 0xffff;\nOUT: ret;"
    )
    assert kinds(execute(body.replace("{by}", "1"), checks=True)) == ["inactive-lane"]
    inside = body.replace(
        "shfl.sync.down.b32 %r1, %r99, {by}, 31", "shfl.sync.bfly.b32 %r1, %r99, 8, 31"
    )
    assert kinds(execute(inside, checks=True)) == []


def test_a_collective_instruction_in_divergent_code(execute: Execute) -> None:
    body = (
        f"{WORDS}\nmov.u32 %r50, s; setp.lt.u32 %p1, %r99, 16; @!%p1 bra OUT;\n"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r50];\nOUT: ret;"
    )
    assert "divergent-aligned" in kinds(execute(body, checks=True))


def test_lanes_of_a_warp_at_two_barriers(execute: Execute) -> None:
    body = "setp.lt.u32 %p1, %r99, 16; @%p1 bra A; bar.sync 0; bra OUT;\nA: bar.sync 0;\nOUT: ret;"
    assert kinds(execute(body, checks=True)) == ["divergent-barrier"]


def test_an_endless_loop_ends(execute: Execute) -> None:
    report = execute("L: ld.volatile.global.u32 %r1, [%d0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;",
                     np.zeros(1, np.uint32), checks=True)  # fmt: skip
    assert (report.completed, kinds(report)) == (False, ["endless-loop"])


def test_blocks_wait_for_blocks_that_start_later(execute: Execute) -> None:
    """Block b waits until b + 1 has had its turn; 16 of so many threads run at once."""
    body = (
        "setp.ne.u32 %p2, %r99, 0; @%p2 ret; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; "
        "sub.u32 %r3, %r2, %r1; sub.u32 %r3, %r3, 1;\n"
        "L: ld.volatile.global.u32 %r4, [%d0]; setp.ne.u32 %p1, %r4, %r3; @%p1 bra L;\n"
        "add.u32 %r4, %r4, 1; membar.gl; st.volatile.global.u32 [%d0], %r4;"
    )
    turn = np.zeros(1, np.uint32)
    report = execute(body, turn, grid=(19,), block=(1024,), checks=True)
    assert (report.completed, kinds(report), int(turn[0])) == (True, [], 19)


SCALE = (
    "mov.u32 %r1, %ctaid.x; shl.b32 %r2, %r1, 5; "
    "add.u32 %r2, %r2, %r99; mul.wide.u32 %d1, %r2, 4;\n"
    "add.u64 %d1, %d0, %d1; st.global.u32 [%d1], %r1;"
)


@pytest.mark.parametrize(
    ("blocks", "ran"),
    [("first:2", [0, 1]), ("sample:3", None), ([5, 2], [2, 5]), ("first:99", list(range(8)))],
)
def test_some_blocks(execute: Execute, blocks: Any, ran: list[int] | None) -> None:
    out = np.full(256, 77, np.uint32)
    execute(SCALE, out, grid=(8,), checks=True, blocks=blocks)
    wrote = [b for b in range(8) if (out[32 * b : 32 * b + 32] == b).all()]
    assert len(wrote) == 3 if ran is None else wrote == ran


def test_findings_name_blocks_by_their_ids(execute: Execute) -> None:
    """Of the blocks that run, 3 and 6, only 6 goes wrong; 1 and 6 meet in a cell."""
    body = (
        "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 6; mul.wide.u32 %d1, %r1, 4;\n"
        "add.u64 %d1, %d0, %d1; @%p1 st.global.u32 [%d1+4], 1;"
    )
    (finding,) = execute(body, np.zeros(7, "u4"), grid=(8,), checks=True, blocks=[3, 6]).findings
    assert (finding.kind, finding.block) == ("out-of-bounds", 6)
    assert "block 6, warp 0, lane 0" in finding.message
    body = "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r99, 0; @%p1 st.global.u32 [%d0], %r1;"
    (race,) = execute(body, np.zeros(1, "u4"), grid=(8,), checks=True, blocks=[1, 6]).findings
    assert race.kind in ("race", "overlap")
    assert race.block == 1 or "block 1" in race.message


def test_a_shape_inside_a_padded_array(execute: Execute) -> None:
    """Row 1 of a 2 × 24 part of a 2 × 32 array begins at element 32."""
    out = np.zeros((2, 32), np.uint32)
    body = "add.u64 %d1, %d0, %d99; st.global.u32 [%d1+128], 1;"
    (finding,) = execute(body, out, checks=True, shapes={0: (2, 24)}).findings
    assert (finding.kind, finding.lane, finding.array) == ("out-of-bounds", 24, "p0")
    assert out[1].tolist() == [1] * 24 + [0] * 8
    wide = "shl.b64 %d1, %d99, 2; add.u64 %d1, %d0, %d1; setp.lt.u32 %p1, %r99, 16;\n"
    across = wide + "@%p1 st.global.v4.u32 [%d1], {%r99, %r99, %r99, %r99};"
    rows = np.zeros((4, 30), np.uint32)  # 16 bytes cross the ends of rows
    assert kinds(execute(across, rows, checks=True, shapes={0: (4, 30)})) == ["out-of-bounds"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"schedule": "fast"}, "schedule='fast' is not known; use lockstep or random."),
        ({"seed": -1}, "seed=-1 must be a whole number from 0 up."),
        ({"blocks": "last:1"}, "blocks='last:1' must be first:N or sample:N"),
        ({"blocks": [8]}, "must be ids from 0 to 0, at least one."),
        ({"checks": "yes"}, "checks='yes' must be True or False."),
        ({"shapes": {0: (9,)}}, "shapes[0]=(9,) must have 1 extents, each at most that of"),
        ({"shapes": {3: (1,)}}, "args[3] is no array"),
    ],
)
def test_options_that_are_none(execute: Execute, how: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        execute("ret;", np.zeros(4, np.uint32), **({"checks": True} | how))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("passed", "expected"),
    [("%r1", []), ("%r2", []), ("%r99", ["race"])],
)
def test_a_shuffle_of_what_was_loaded_ends_the_loads(
    execute: Execute, passed: str, expected: list[str]
) -> None:
    """Every lane has got its word when the shuffle is done, so that another may overwrite it."""
    report = shared(
        execute,
        f"""st.shared.u32 [%r50], %r99; bar.sync 0; xor.b32 %r53, %r50, 4;
        ld.shared.u32 %r1, [%r53]; add.u32 %r2, %r1, 1;
        shfl.sync.bfly.b32 %r3, {passed}, 1, 31, -1; st.shared.u32 [%r50], %r3; ret;""",
    )
    assert kinds(report) == expected


def test_a_shuffle_makes_no_order_for_what_is_read_behind_it(execute: Execute) -> None:
    report = shared(
        execute,
        """st.shared.u32 [%r50], %r99; ld.shared.u32 %r1, [%r50]; xor.b32 %r53, %r50, 4;
        shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1; ld.shared.u32 %r1, [%r53]; ret;""",
    )
    assert kinds(report) == ["race"]


@pytest.mark.parametrize(
    ("sync", "expected"),
    [("bar.warp.sync -1;", []), ("shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;", []), ("", ["race"])],
)
def test_turns_of_a_warp_do_not_run_out(
    execute: Execute, monkeypatch: pytest.MonkeyPatch, sync: str, expected: list[str]
) -> None:
    """A record has room for 4,095 turns of a period; here a new period begins after 7."""
    monkeypatch.setattr("tilewright.emulator.clocks.MOST_TURNS", 7)
    report = shared(
        execute,
        f"""xor.b32 %r53, %r50, 4; mov.u32 %r1, %r99; mov.u32 %r9, 0;
        LOOP: st.shared.u32 [%r50], %r1; bar.warp.sync -1; ld.shared.u32 %r1, [%r53]; {sync}
        add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 40; @%p1 bra LOOP; ret;""",
    )
    assert kinds(report) == expected


@pytest.mark.parametrize(
    ("use", "found"),
    [
        ("atom.global.cas.b32 %r2, [%d0], %r1, %r99;", []),
        ("mov.b32 %f1, %r1; mov.b32 %r3, %f1; atom.global.cas.b32 %r2, [%d0], %r3, %r99;", []),
        ("atom.global.cas.b32 %r2, [%d0], %r99, %r1;", ["race"]),
        ("atom.global.add.u32 %r2, [%d0], %r1;", ["race"]),
    ],
)
def test_a_plain_load_may_guess_for_a_swap(execute: Execute, use: str, found: list[str]) -> None:
    """The swap tells when the guess was wrong; what is stored or added needs an atomic load."""
    body = f"ld.global.u32 %r1, [%d0]; {use} ret;"
    report = execute(body, np.zeros(1, "u4"), grid=(3,), block=(64,), checks=True)
    assert sorted(set(kinds(report))) == found
