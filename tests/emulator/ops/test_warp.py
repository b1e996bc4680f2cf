"""shfl.sync against the pseudo-code of the PTX ISA, lane by lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Execute = Callable[..., Any]
MODES = ("up", "down", "bfly", "idx")


def source_lane(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """PTX ISA, shfl.sync: the lane that is read and the predicate."""
    bval, cval, mask = b & 31, c & 31, c >> 8 & 31
    most = lane & mask | cval & ~mask
    least = lane & mask
    match mode:
        case "up":
            j = lane - bval
            valid = j >= most
        case "down":
            j = lane + bval
            valid = j <= most
        case "bfly":
            j = lane ^ bval
            valid = j <= most
        case _:
            j = least | bval & ~mask
            valid = j <= most
    return (j if valid else lane), valid


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [32, 16, 8, 4, 2, 1])
@pytest.mark.parametrize("block", [(64,), (40,)])
def test_every_offset_in_every_segment(
    execute: Execute, mode: str, width: int, block: tuple[int]
) -> None:
    threads = block[0]
    control = (32 - width) << 8 | (0 if mode == "up" else 31)
    body = "".join(
        f"shfl.sync.{mode}.b32 %r5|%p1, %r99, {offset}, {control}, -1;"
        f"selp.b32 %r6, 1000, 0, %p1; add.u32 %r5, %r5, %r6;"
        f"st.global.u32 [%d1+{offset * 4 * threads}], %r5;"
        for offset in (0, 1, 2, 3, 5, 8, 15, 16, 31, 33)
    )
    out = np.zeros((34, threads), "u4")
    report = execute(f"add.s64 %d1, %d0, %d99; {body} ret;", out, block=block)
    assert report.findings == []
    for offset in (0, 1, 2, 3, 5, 8, 15, 16, 31, 33):
        for thread in range(threads):
            lane, warp = thread % 32, thread // 32
            j, valid = source_lane(mode, lane, offset, control)
            if 32 * warp + j < threads:
                assert out[offset, thread] == 32 * warp + j + 1000 * valid, (offset, thread)


@pytest.mark.parametrize("mode", MODES)
def test_offsets_and_clamps_of_each_lane(execute: Execute, mode: str) -> None:
    rng = np.random.default_rng(1)
    offsets = rng.integers(0, 40, 32).astype("u4")
    controls = (rng.integers(0, 32, 32) << 8 | rng.integers(0, 32, 32)).astype("u4")
    out = np.zeros((2, 32), "u4")
    body = f"""
      add.s64 %d0, %d0, %d99; add.s64 %d1, %d1, %d99; add.s64 %d2, %d2, %d99;
      ld.global.u32 %r1, [%d0]; ld.global.u32 %r2, [%d1];
      shfl.sync.{mode}.b32 %r3|%p1, %r99, %r1, %r2, 0xFFFFFFFF;
      selp.b32 %r4, 1, 0, %p1; st.global.u32 [%d2], %r3; st.global.u32 [%d2+128], %r4; ret;
    """
    execute(body, offsets, controls, out)
    for lane in range(32):
        j, valid = source_lane(mode, lane, int(offsets[lane]), int(controls[lane]))
        assert (out[0, lane], out[1, lane]) == (j, valid)


def test_without_a_predicate_and_into_its_own_source(execute: Execute) -> None:
    out = np.zeros(32, "u4")
    body = """
      shfl.sync.bfly.b32 %r99, %r99, 1, 31, -1; shfl.sync.idx.b32 _|%p1, %r99, 1, 31, -1;
      shfl.sync.down.b32 %r99, %r99, 16, 31, -1; bar.warp.sync -1;
      add.s64 %d0, %d0, %d99; st.global.u32 [%d0], %r99; ret;
    """
    execute(body, out)
    assert out.tolist() == [(lane + 16 if lane < 16 else lane) ^ 1 for lane in range(32)]


def test_a_reduction_sums_the_warp(execute: Execute) -> None:
    out = np.zeros(1, "f4")
    steps = "".join(
        f"mov.b32 %r1, %f1; shfl.sync.down.b32 %r2, %r1, {n}, 31, -1; mov.b32 %f2, %r2;"
        "add.f32 %f1, %f1, %f2;"
        for n in (16, 8, 4, 2, 1)
    )
    end = "setp.ne.u32 %p1, %r99, 0; @%p1 ret; st.global.f32 [%d0], %f1;"
    execute(f"cvt.rn.f32.u32 %f1, %r99; {steps} {end}", out)
    assert out == [sum(range(32))]


@pytest.mark.parametrize(
    "text",
    [
        "shfl.down.b32 %r1, %r2, 1, 31;",
        "shfl.sync.down.b32 %r1, %r2, 1, 31;",
        "shfl.sync.down.b64 %d1, %d2, 1, 31, -1;",
        "shfl.sync.swap.b32 %r1, %r2, 1, 31, -1;",
        "shfl.sync.down.b32 %r1|%r2, %r2, 1, 31, -1;",
        "bar.warp.sync;",
    ],
)
def test_other_shuffles_stop(execute: Execute, text: str) -> None:
    with pytest.raises(UnsupportedError, match=text.split()[0].rstrip(";")):
        execute(text)
