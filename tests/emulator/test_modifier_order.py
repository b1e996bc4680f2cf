"""Modifiers in another order than the ISA prints: ptxas of CUDA 13.0 takes every one of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.emulator.modifier_order import in_order
from tilewright.errors import UnsupportedError


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("atom.add.relaxed.gpu.s32", "atom.relaxed.gpu.add.s32"),
        ("atom.add.s32.global", "atom.global.add.s32"),
        ("atom.cas.acquire.gpu.global.b32", "atom.acquire.gpu.global.cas.b32"),
        ("atom.global.add.relaxed.gpu.s32", "atom.relaxed.gpu.global.add.s32"),
        ("red.add.relaxed.gpu.global.s32", "red.relaxed.gpu.global.add.s32"),
        ("ld.b32.global", "ld.global.b32"),
        ("ld.v2.b32.shared::cta", "ld.shared::cta.v2.b32"),
        ("ld.global.v2.relaxed.gpu.b32", "ld.relaxed.gpu.global.v2.b32"),
        ("fence.gpu.acq_rel", "fence.acq_rel.gpu"),
        ("cvt.f32.rn.s32", "cvt.rn.f32.s32"),
        ("cvt.f32.s32.rn", "cvt.rn.f32.s32"),
        ("cvt.rni.sat.ftz.f32.f32", "cvt.rni.ftz.sat.f32.f32"),
        ("add.s32.sat", "add.sat.s32"),
        ("add.ftz.rn.f32", "add.rn.ftz.f32"),
        ("fma.relu.rn.f16", "fma.rn.relu.f16"),
        ("min.NaN.ftz.f32", "min.ftz.NaN.f32"),
        ("setp.s32.lt", "setp.lt.s32"),
        ("setp.ftz.and.lt.f32", "setp.lt.and.ftz.f32"),
        ("ex2.ftz.approx.f32", "ex2.approx.ftz.f32"),
        ("shfl.bfly.sync.b32", "shfl.sync.bfly.b32"),
        ("barrier.cluster.arrive.aligned.release", "barrier.cluster.arrive.release.aligned"),
        ("barrier.cluster.wait.aligned.acquire", "barrier.cluster.wait.acquire.aligned"),
        # As the ISA prints them, or with a word that is not known: as they are.
        ("ld.global.nc.L1::no_allocate.L2::128B.v4.f32",) * 2,
        ("match.any.sync.b32",) * 2,
        ("cvt.rn.satfinite.relu.e4m3x2.f32",) * 2,
        ("mad.lo.cc.u32",) * 2,
        ("barrier.red.popc.aligned.u32",) * 2,
        ("ld.b32.whatever.global",) * 2,
        ("ret",) * 2,
    ],
)
def test_the_order_of_the_isa(written: str, printed: str) -> None:
    assert in_order(written) == printed


def test_they_run_and_count_alike(execute: Callable[..., Any]) -> None:
    out = np.zeros(2, "u4")
    body = """ld.b32.global %r1, [%d0]; atom.add.s32.global.relaxed.gpu %r2, [%d0], 1;
      st.b32.global [%d0+4], %r1; ret;"""
    report = execute(body, out, block=(1,))
    assert out.tolist() == [1, 0]
    assert [access.opcode for access in report.accesses] == [
        "ld.global.b32",
        "atom.relaxed.gpu.global.add.s32",
        "st.global.b32",
    ]


@pytest.mark.parametrize("text", ["mul.s32.lo %r1, %r1, %r2;", "ld.b32.what.global %r1, [%d0];"])
def test_others_stop(execute: Callable[..., Any], text: str) -> None:
    with pytest.raises(UnsupportedError, match="does not model"):
        execute(text)
