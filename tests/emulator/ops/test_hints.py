"""Fences, prefetches and other hints: accepted without an effect, their operands checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Execute = Callable[..., Any]

HINTS = [
    *(f"membar.{level};" for level in ("cta", "gl", "sys", "proxy.alias")),
    *(f"fence.{sem}.{scope};" for sem in ("sc", "acq_rel", "acquire", "release")
      for scope in ("cta", "cluster", "gpu", "sys")),
    *(f"fence.proxy.{kind};" for kind in ("alias", "async", "async.global", "async.shared::cta",
                                          "async.shared::cluster")),
    "fence.mbarrier_init.release.cluster;",
    "fence.acquire.sync_restrict::shared::cluster.cluster;",
    "fence.release.sync_restrict::shared::cta.cluster;",
    "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
    "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;",
    "fence.proxy.tensormap::generic.release.gpu;",
    "fence.proxy.tensormap::generic.acquire.gpu [%d0], 128;",
    "griddepcontrol.wait;",
    "griddepcontrol.launch_dependents;",
    "prefetch.global.L1 [%d0];",
    "prefetch.L2 [%d0+64];",
    "prefetch.global.L2::evict_last [%d0];",
    "prefetch.tensormap [%d0];",
    "prefetchu.L1 [%d0];",
    "discard.global.L2 [%d0], 128;",
    "applypriority.global.L2::evict_normal [%d0], 128;",
    "nanosleep.u32 100;",
    "nanosleep.u32 %r99;",
    "setmaxnreg.inc.sync.aligned.u32 240;",
    "setmaxnreg.dec.sync.aligned.u32 24;",
    "createpolicy.fractional.L2::evict_last.b64 %d5, 1.0;",
    "createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %d5, 0f3F000000;",
    "createpolicy.fractional.L2::evict_normal.b64 %d5;",
    "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %d5, [%d0], 64, 128;",
    "createpolicy.cvt.L2.b64 %d5, 0x10F0000000000000;",
    "bar.warp.sync -1;",
]  # fmt: skip


@pytest.mark.parametrize("text", HINTS)
def test_hints_change_nothing(execute: Execute, text: str) -> None:
    out = np.zeros(32, "u4")
    report = execute(f"{text} add.s64 %d1, %d0, %d99; st.global.u32 [%d1], %r99; ret;", out)
    assert report.findings == []
    assert out.tolist() == list(range(32))


@pytest.mark.parametrize(
    "text",
    [
        "membar.gpu;",
        "membar.cta 1;",
        "fence.relaxed.gpu;",
        "fence.sc;",
        "fence.proxy.sync;",
        "fence.proxy.tensormap::generic.acquire.gpu [%d0], 64;",
        "griddepcontrol.wait 1;",
        "prefetch.shared.L1 [%r1];",
        "prefetch.global.L1 %d1;",
        "prefetchu.L2 [%d1];",
        "discard.global.L2 [%d1], 64;",
        "applypriority.global.L2::evict_last [%d1], 128;",
        "nanosleep.u64 %d1;",
        "setmaxnreg.inc.sync.aligned.u32 20;",
        "setmaxnreg.inc.sync.aligned.u32 33;",
        "setmaxnreg.inc.sync.aligned.u32 %r1;",
        "createpolicy.fractional.L1::evict_last.b64 %d1, 1.0;",
        "createpolicy.fractional.L2::evict_last.b64 %d1, 1.0, 1.0;",
    ],
)
def test_other_forms_stop(execute: Execute, text: str) -> None:
    with pytest.raises(UnsupportedError, match=text.split()[0].rstrip(";")):
        execute(text)
