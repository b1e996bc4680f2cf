"""Clusters of one block: addresses, ranks and registers, as code for sm_90 asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Execute = Callable[..., Any]


def test_the_block_is_the_cluster(execute: Execute) -> None:
    out = np.full((6, 8), 99, "u4")
    names = ["%cluster_ctarank", "%cluster_nctarank", "%cluster_ctaid.x", "%cluster_nctaid.y",
             "%clusterid.x", "%nclusterid.x", "%clusterid.y", "%nclusterid.y"]  # fmt: skip
    reads = "".join(
        f"mov.u32 %r1, {name}; st.global.u32 [%d4+{4 * i}], %r1;" for i, name in enumerate(names)
    )
    body = f"""mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x;
      mad.lo.u32 %r1, %r1, %r2, %r3; mul.wide.u32 %d4, %r1, 32; add.s64 %d4, %d0, %d4;
      {reads} ret;"""
    assert execute(body, out, grid=(3, 2), block=(1,)).findings == []
    expected = [[0, 1, 0, 1, i % 3, 3, i // 3, 2] for i in range(6)]
    np.testing.assert_array_equal(out, expected)


def test_addresses_of_the_cluster(execute: Execute) -> None:
    """A lane stores through mapa's address, another reads through the plain one."""
    out = np.full((3, 32), 99, "u4")
    body = """.shared .align 4 .b8 s[128]; mov.u32 %r1, s; shl.b32 %r2, %r99, 2;
      add.u32 %r1, %r1, %r2; mapa.shared::cluster.u32 %r3, %r1, 0; add.s64 %d4, %d0, %d99;
      st.shared::cluster.u32 [%r3], %r99; ld.shared.u32 %r4, [%r1]; st.global.u32 [%d4], %r4;
      atom.shared::cluster.add.u32 %r5, [%r3], 100; cvt.u64.u32 %d5, %r1;
      cvta.shared.u64 %d5, %d5; mapa.u64 %d5, %d5, 0; ld.u32 %r4, [%d5];
      st.global.u32 [%d4+128], %r4; getctarank.u64 %r6, %d5; isspacep.shared::cluster %p1, %d5;
      selp.u32 %r7, 10, 20, %p1; add.u32 %r6, %r6, %r7; st.global.u32 [%d4+256], %r6; ret;"""
    assert execute(body, out, checks=True).findings == []
    lanes = np.arange(32)
    np.testing.assert_array_equal(out, [lanes, lanes + 100, np.full(32, 10)])


def test_a_rank_that_there_is_not(execute: Execute) -> None:
    body = """.shared .align 4 .b8 s[128]; mov.u32 %r1, s; and.b32 %r2, %r99, 1;
      mapa.shared::cluster.u32 %r3, %r1, %r2; ret;"""
    (found,) = execute(body, np.zeros(1, "u4")).findings
    assert (found.kind, found.lane) == ("out-of-bounds", 1)
    assert "one block" in found.message


@pytest.mark.parametrize(
    "text",
    [
        "mapa.shared::cluster.u32 %r3, [%r1], 0;",
        "st.async.release.gpu.global.b32 [%d0], %r1;",  # of sm_100
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b64 "
        "[%r1], {%d0, %d0, %d0, %d0}, [%r1];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s64 "
        "[%r1], %d1, [%r1];",
        "red.async.relaxed.cluster.shared::cluster.add.u32 [%r1], %r1, [%r1];",
    ],
)
def test_forms_that_sm_90_has_not(execute: Execute, text: str) -> None:
    with pytest.raises(UnsupportedError):
        execute(f"{text} ret;", np.zeros(32, "u4"))
