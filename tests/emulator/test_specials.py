"""Special registers, and threads and blocks of several extents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Execute = Callable[..., Any]


@pytest.mark.parametrize("block", [(1,), (40,), (7, 5), (4, 3, 6), (1, 1, 64), (32, 32)])
@pytest.mark.parametrize("grid", [(1,), (3, 2), (2, 3, 4)])
def test_thread_and_block_numbers(
    execute: Execute, block: tuple[int, ...], grid: tuple[int, ...]
) -> None:
    bx, by, bz = (*block, 1, 1)[:3]
    gx, gy, gz = (*grid, 1, 1)[:3]
    out = np.full((gz, gy, gx, bz, by, bx, 6), 0xEE, "u4")
    body = """
      mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
      mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y; mov.u32 %r6, %ctaid.z;
      mov.u32 %r7, %ntid.x; mov.u32 %r8, %ntid.y; mov.u32 %r9, %ntid.z;
      mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y;
      mad.lo.u32 %r12, %r6, %r11, %r5; mad.lo.u32 %r12, %r12, %r10, %r4;
      mad.lo.u32 %r12, %r12, %r9, %r3; mad.lo.u32 %r12, %r12, %r8, %r2;
      mad.lo.u32 %r12, %r12, %r7, %r1; mul.wide.u32 %d1, %r12, 24; add.s64 %d0, %d0, %d1;
      st.global.v2.u32 [%d0], {%r1, %r2}; st.global.v2.u32 [%d0+8], {%r3, %r4};
      st.global.v2.u32 [%d0+16], {%r5, %r6}; ret;
    """
    assert execute(body, out, grid=grid, block=block).findings == []
    z, y, x, tz, ty, tx = np.indices(out.shape[:-1])
    np.testing.assert_array_equal(out, np.stack([tx, ty, tz, x, y, z], axis=-1))


def test_lanes_and_warps(execute: Execute) -> None:
    names = ["laneid", "warpid", "nwarpid", "lanemask_eq", "lanemask_lt"]
    names += ["lanemask_le", "lanemask_gt", "lanemask_ge", "ntid.x", "nctaid.z"]
    out = np.zeros((len(names), 70), "u4")
    body = "add.s64 %d0, %d0, %d99;" + "".join(
        f"mov.u32 %r1, %{name}; st.global.u32 [%d0+{280 * i}], %r1;" for i, name in enumerate(names)
    )
    execute(body + "ret;", out, block=(70,))
    thread = np.arange(70)
    lane, every = thread % 32, 2**32 - 1
    below = np.array([(1 << n) - 1 for n in lane.tolist()])
    bit = np.array([1 << n for n in lane.tolist()])
    want = [lane, thread // 32, thread * 0 + 3, bit, below, below | bit]
    want += [every ^ (below | bit), every ^ below, thread * 0 + 70, thread * 0 + 1]
    np.testing.assert_array_equal(out, want)


def test_sixteen_and_sixty_four_bits(execute: Execute) -> None:
    out = np.zeros(32, "u8")
    body = """mov.u16 %h1, %tid.x; cvt.u64.u16 %d1, %h1; cvt.u64.u32 %d2, %tid.x;
      add.u64 %d1, %d1, %d2; mul.wide.u32 %d3, %r99, 8; add.s64 %d0, %d0, %d3;
      st.global.u64 [%d0], %d1; ret;"""
    execute(body, out)
    assert out.tolist() == [2 * lane for lane in range(32)]


def test_shared_memory_sizes(execute: Execute) -> None:
    out = np.zeros(2, "u4")
    body = """.shared .align 4 .b8 s[100]; mov.u32 %r3, s;
      mov.u32 %r1, %dynamic_smem_size; mov.u32 %r2, %total_smem_size;
      st.global.v2.u32 [%d0], {%r1, %r2}; ret;"""
    execute(body, out, shared_bytes=28)
    assert out.tolist() == [28, 128]


def test_where_a_block_runs(execute: Execute) -> None:
    out = np.zeros((200, 4), "u4")
    body = """mov.u32 %r1, %smid; mov.u32 %r2, %nsmid; mov.u64 %d5, %gridid;
      cvt.u32.u64 %r3, %d5; mov.u32 %r5, %ctaid.x; mul.wide.u32 %d2, %r5, 16;
      add.s64 %d0, %d0, %d2; st.global.v4.u32 [%d0], {%r1, %r2, %r3, 0}; ret;"""
    execute(body, out, grid=(200,), block=(1,))
    assert out[:, 0].tolist() == [block % 132 for block in range(200)]
    assert set(out[:, 1].tolist()) == {132}
    assert not out[:, 2].any()


def test_clocks_go_on(execute: Execute) -> None:
    out = np.zeros(4, "u8")
    body = """mov.u64 %d5, %clock64; mov.u64 %d6, %clock64; mov.u32 %r1, 0;
      LOOP: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5; @%p1 bra LOOP;
      mov.u64 %d7, %globaltimer; mov.u32 %r2, %clock; cvt.u64.u32 %d8, %r2;
      st.global.v2.u64 [%d0], {%d5, %d6}; st.global.v2.u64 [%d0+16], {%d7, %d8}; ret;"""
    execute(body, out, block=(1,))
    assert sorted(set(out.tolist())) == out.tolist()


def test_waiting_for_a_time_ends(execute: Execute) -> None:
    body = """mov.u64 %d5, %clock64; add.u64 %d5, %d5, 1000;
      WAIT: nanosleep.u32 20; mov.u64 %d6, %clock64; setp.lt.u64 %p1, %d6, %d5;
      @%p1 bra WAIT; ret;"""
    assert execute(body).completed
