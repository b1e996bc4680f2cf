"""cp.async: data arrive at the wait and not before, group by group in each lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Execute = Callable[..., Any]

POISON = 0xFFFF_FFFF
SETUP = """
  .shared .align 16 .b8 s[8192];
  mov.u32 %r10, s; shl.b32 %r11, %r99, 4; add.u32 %r10, %r10, %r11; cvt.u64.u32 %d10, %r11;
  add.s64 %d11, %d0, %d10; add.s64 %d12, %d1, %d99;
"""


def look(row: int) -> str:
    """Stores the first word of this lane's 16 bytes into row `row` of the second array."""
    return f"ld.shared.u32 %r20, [%r10]; st.global.u32 [%d12+{row * 128}], %r20;\n"


def words(rows: int) -> np.ndarray[Any, Any]:
    return np.zeros((rows, 32), "u4")


def source(count: int = 1) -> np.ndarray[Any, Any]:
    return np.arange(count * 128, dtype="u4") + 1000


@pytest.mark.parametrize(
    ("opcode", "size"),
    [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16), ("cg.x", 16)],
)
def test_every_size_lands_at_the_wait_and_only_its_bytes(
    execute: Execute, opcode: str, size: int
) -> None:
    data, out = source(), np.zeros((2, 32, 4), "u4")
    name = f"cp.async.{opcode[:2]}.shared.global" + (".L2::128B" if "." in opcode else "")
    body = f"""{SETUP} add.s64 %d12, %d1, %d10;
      {name} [%r10], [%d11], {size}; cp.async.commit_group;
      ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [%r10];
      st.global.v4.u32 [%d12], {{%r1, %r2, %r3, %r4}};
      cp.async.wait_group 0;
      ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [%r10];
      st.global.v4.u32 [%d12+512], {{%r1, %r2, %r3, %r4}}; ret;"""
    assert execute(body, data, out).findings == []
    assert (out[0] == POISON).all()
    np.testing.assert_array_equal(out[1, :, : size // 4], data.reshape(32, 4)[:, : size // 4])
    assert (out[1, :, size // 4 :] == POISON).all()


def test_wait_group_leaves_the_newest_groups_in_flight(execute: Execute) -> None:
    data, seen = source(3), words(9)
    body = SETUP + "".join(
        f"cp.async.cg.shared.global [%r10+{512 * i}], [%d11+{512 * i}], 16;cp.async.commit_group;"
        for i in range(3)
    )
    for step, pending in enumerate((2, 1, 0)):
        body += f"cp.async.wait_group {pending};"
        for i in range(3):
            body += f"ld.shared.u32 %r20, [%r10+{512 * i}];"
            body += f"st.global.u32 [%d12+{128 * (3 * step + i)}], %r20;"
    execute(body + "ret;", data, seen)
    first = data.reshape(3, 32, 4)[:, :, 0]
    for step in range(3):
        for i in range(3):
            want = first[i] if i <= step else np.full(32, POISON)
            np.testing.assert_array_equal(seen[3 * step + i], want)


def test_an_uncommitted_copy_is_of_no_group(execute: Execute) -> None:
    data, out = source(), words(2)
    body = f"""{SETUP}
      cp.async.cg.shared.global [%r10], [%d11], 16; cp.async.wait_group 0; {look(0)}
      cp.async.wait_all; {look(1)} ret;"""
    execute(body, data, out)
    assert (out[0] == POISON).all()
    np.testing.assert_array_equal(out[1], data[::4])


def test_an_empty_group_counts(execute: Execute) -> None:
    data, out = source(), words(2)
    body = f"""{SETUP}
      cp.async.cg.shared.global [%r10], [%d11], 16; cp.async.commit_group;
      cp.async.wait_group 1; {look(0)} cp.async.commit_group; cp.async.wait_group 1; {look(1)}
      ret;"""
    execute(body, data, out)
    assert (out[0] == POISON).all()
    np.testing.assert_array_equal(out[1], data[::4])


def test_groups_are_counted_in_each_lane(execute: Execute) -> None:
    """Odd lanes commit once more; so their copy is older, and wait_group 1 lands only theirs."""
    data, out = source(), words(2)
    body = f"""{SETUP}
      and.b32 %r1, %r99, 1; setp.ne.u32 %p1, %r1, 0;
      cp.async.cg.shared.global [%r10], [%d11], 16; cp.async.commit_group;
      @%p1 cp.async.commit_group;
      cp.async.wait_group 1; {look(0)} cp.async.wait_group 0; {look(1)} ret;"""
    execute(body, data, out)
    np.testing.assert_array_equal(out[0, 1::2], data[::4][1::2])
    assert (out[0, ::2] == POISON).all()
    np.testing.assert_array_equal(out[1], data[::4])


def test_a_wait_lands_the_waiting_warps_copies_only(execute: Execute) -> None:
    data, out = source(2), np.zeros((2, 64), "u4")
    body = f"""{SETUP}
      cp.async.cg.shared.global [%r10], [%d11], 16; cp.async.commit_group;
      setp.ge.u32 %p1, %r99, 32; @%p1 bra SECOND;
      cp.async.wait_group 0;
      SECOND: ld.shared.u32 %r20, [%r10]; st.global.u32 [%d12], %r20;
      cp.async.wait_all; ld.shared.u32 %r20, [%r10]; st.global.u32 [%d12+256], %r20; ret;"""
    execute(body, data, out, block=(64,))
    np.testing.assert_array_equal(out[0, :32], data[::4][:32])
    assert (out[0, 32:] == POISON).all()
    np.testing.assert_array_equal(out[1], data[::4])


def test_copies_of_some_lanes_of_some_blocks(execute: Execute) -> None:
    data, out = source(), np.zeros((3, 32), "u4")
    body = f"""{SETUP}
      mov.u32 %r1, %ctaid.x; setp.lt.u32 %p1, %r99, %r1;
      @%p1 cp.async.ca.shared.global [%r10], [%d11], 4; cp.async.commit_group;
      cp.async.wait_group 0;
      mul.wide.u32 %d13, %r1, 128; add.s64 %d12, %d12, %d13; {look(0)} ret;"""
    report = execute(body, data, out, grid=(3,))
    for block in range(3):
        want = np.where(np.arange(32) < block, data[::4], POISON)
        np.testing.assert_array_equal(out[block], want)
    (copy,) = [row for row in report.accesses if row.opcode.startswith("cp")]
    assert (copy.requests, copy.bytes) == (2, 12)


def test_the_source_is_read_when_the_copy_starts(execute: Execute) -> None:
    data, out = source(), words(1)
    body = f"""{SETUP}
      cp.async.cg.shared.global [%r10], [%d11], 16; st.global.u32 [%d11], 7;
      cp.async.wait_all; {look(0)} ret;"""
    execute(body, data, out)
    assert out[0].tolist() == [1000 + 4 * lane for lane in range(32)]


@pytest.mark.parametrize("size", [4, 8, 16])
def test_a_smaller_source_is_filled_with_zeros(execute: Execute, size: int) -> None:
    rng = np.random.default_rng(size)
    used = rng.integers(0, size + 1, 32).astype("u4")
    data = rng.integers(1, 256, (32, 16), dtype=np.uint8)
    out = np.zeros((32, 16), "u1")
    body = f"""{SETUP} add.s64 %d12, %d1, %d10; add.s64 %d2, %d2, %d99; ld.global.u32 %r1, [%d2];
      st.shared.v4.u32 [%r10], {{-1, -1, -1, -1}};
      cp.async.ca.shared.global [%r10], [%d11], {size}, %r1; cp.async.wait_all;
      ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [%r10];
      st.global.v4.u32 [%d12], {{%r1, %r2, %r3, %r4}}; ret;"""
    assert execute(body, data, out, used).findings == []
    want = np.full((32, 16), 255, "u1")
    want[:, :size] = np.where(np.arange(size) < used[:, None], data[:, :size], 0)
    np.testing.assert_array_equal(out, want)


def test_only_the_bytes_that_are_copied_must_exist(execute: Execute) -> None:
    """The last row of a matrix whose width is no multiple of 16 bytes ends inside the element."""
    data, out = np.arange(126, dtype="u4"), np.zeros((32, 4), "u4")
    body = f"""{SETUP} add.s64 %d12, %d1, %d10;
      setp.eq.u32 %p1, %r99, 31; selp.b32 %r1, 8, 16, %p1;
      cp.async.cg.shared.global [%r10], [%d11], 16, %r1; cp.async.wait_all;
      ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [%r10];
      st.global.v4.u32 [%d12], {{%r1, %r2, %r3, %r4}}; ret;"""
    assert execute(body, data, out).findings == []
    assert out.ravel().tolist() == [*range(126), 0, 0]


def test_a_lane_that_copies_nothing_may_name_any_source(execute: Execute) -> None:
    data, out = source(), words(1)
    body = f"""{SETUP} setp.lt.u32 %p1, %r99, 8; selp.b32 %r1, 0, 16, %p1;
      selp.b64 %d11, 0, %d11, %p1;
      cp.async.cg.shared.global [%r10], [%d11], 16, %r1; cp.async.wait_all; {look(0)} ret;"""
    assert execute(body, data, out).findings == []
    assert out[0].tolist() == [0] * 8 + data[::4][8:].tolist()


def test_a_predicate_ignores_the_source(execute: Execute) -> None:
    data, out = source(), words(1)
    body = f"""{SETUP} setp.lt.u32 %p1, %r99, 8;
      cp.async.ca.shared.global [%r10], [%d11], 4, %p1; cp.async.wait_all; {look(0)} ret;"""
    assert execute(body, data, out).findings == []
    assert out[0].tolist() == [0] * 8 + data[::4][8:].tolist()


def test_faults_at_both_ends(execute: Execute) -> None:
    data, out = np.arange(64, dtype="u4"), words(1)
    body = f"""{SETUP} add.s64 %d13, %d11, 8;
      cp.async.cg.shared.global [%r10], [%d11], 16; cp.async.ca.shared.global [%r10+8192], [%d0], 4;
      cp.async.cg.shared.global [%r10+1024], [%d13], 16; cp.async.wait_all; {look(0)} ret;"""
    report = execute(body, data, out)
    assert out[0].tolist() == [*range(0, 64, 4), *[POISON] * 16]
    found = [(f.kind, f.lane, f.array) for f in report.findings]
    assert found == [
        ("out-of-bounds", 16, "p0"),
        ("out-of-bounds", 0, None),
        ("out-of-bounds", 15, "p0"),
        ("misaligned", 0, "p0"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "cp.async.cg.shared.global [%r1], [%d0], 8;",
        "cp.async.ca.shared.global [%r1], [%d0], 12;",
        "cp.async.ca.shared.global [%r1], [%d0], %r2;",
        "cp.async.ca.shared.global [%r1], [%d0];",
        "cp.async.ca.shared.global [%r1], [%d0], 16, %r1, %d3;",
        "cp.async.ca.shared.global.L2::cache_hint [%r1], [%d0], 16;",
        "cp.async.wait_group %r1;",
        "cp.async.wait_group -1;",
        "cp.async.wait_all 0;",
        "cp.async.mbarrier.arrive.shared.b32 [%r1];",
    ],
)
def test_other_forms_stop(execute: Execute, text: str) -> None:
    with pytest.raises(UnsupportedError, match=r"cp\.async"):
        execute(text, source())
