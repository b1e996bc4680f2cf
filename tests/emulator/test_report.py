"""Reports: rows in program order, totals under the ladder's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright

Execute = Callable[..., Any]

BODY = """
  .shared .align 16 .b8 s[4096];
  mov.u32 %r10, s; mad.lo.u32 %r11, %r99, 16, %r10; mul.wide.u32 %d10, %r99, 16;
  add.s64 %d11, %d0, %d10; bra LATE;
  EARLY: ld.shared.u32 %r1, [%r11];
  stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r11], {%r1}; st.global.u32 [%d11], %r1; ret;
  LATE: cp.async.cg.shared.global [%r11], [%d11], 16; cp.async.commit_group;
  cp.async.wait_group 0; bar.sync 0;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r11];
  ld.global.u32 %r5, [%d11]; bra EARLY;
"""


def test_rows_come_in_program_order(execute: Execute) -> None:
    report = execute(BODY, np.zeros(128, "u4"))
    assert [(row.opcode.split(".")[0], row.space) for row in report.accesses] == [
        ("ld", "shared"),
        ("stmatrix", "shared"),
        ("st", "global"),
        ("cp", "global>shared"),
        ("ldmatrix", "shared"),
        ("ld", "global"),
    ]
    assert all(row.file == "<ptx>" for row in report.accesses)
    lines = [row.line for row in report.accesses]
    assert lines == sorted(lines)


def test_totals(execute: Execute) -> None:
    report = execute(BODY, np.zeros(128, "u4"), grid=(3,))
    totals = report.totals
    assert totals == {
        "instructions": sum(report.instructions.values()),
        # ld.shared at a stride of 16 bytes: 4; stmatrix.x1: 1; cp.async: 4; ldmatrix.x4: 4
        "shared_wavefronts": 3 * 13,
        "shared_wavefronts_ideal": 3 * 10,
        "shared_wavefronts_ldmatrix": 3 * 5,
        "shared_wavefronts_ideal_ldmatrix": 3 * 5,
        "shared_wavefronts_cp_async": 3 * 4,
        "shared_wavefronts_ideal_cp_async": 3 * 4,
        "shared_wavefronts_ldst": 3 * 4,
        "shared_wavefronts_ideal_ldst": 3 * 1,
        "wgmma_shared_bytes": 0,
        "bank_conflicts": 3 * 3,
        "global_sectors_load": 3 * 32,
        "global_sectors_store": 3 * 16,
        "global_sectors": 3 * 48,
        "global_sectors_ideal": 3 * (16 + 4 + 4),
        "bulk_load_bytes": 0,
        "bulk_store_bytes": 0,
        "multicast_bytes": 0,
        "l2_requests": 0,
    }
    assert all(isinstance(value, int) for value in totals.values())


def test_instructions_count_warps(execute: Execute) -> None:
    body = "setp.lt.u32 %p1, %r99, 40; @%p1 mov.u32 %r1, 1; @!%p1 bra END; bar.sync 0; END: ret;"
    report = execute(body, block=(96,), grid=(2,))
    counted = report.instructions
    assert counted["setp.lt.u32"] == counted["mov.u32"] // 2 == counted["bra"] == 6
    assert counted["bar.sync"] == 4  # warps 0 and 1 of both blocks
    assert counted["ret"] == 2 * 4  # warp 1 twice: its other lanes did not wait at the barrier
    assert report.totals["instructions"] == sum(counted.values())


def test_an_access_that_never_ran_has_no_row(execute: Execute) -> None:
    report = execute("@%p1 ld.global.u32 %r1, [%d0]; bra E; ld.shared.u32 %r1, [0]; E: ret;", None)
    assert report.accesses == []
    assert report.instructions["ld.global.u32"] == 1
    assert "ld.shared.u32" not in report.instructions


def test_rows_carry_the_users_line(kernel_text: Callable[..., str]) -> None:
    body = (
        ".loc 1 40 3\nst.shared.u32 [0], 1;\n"
        ".loc 2 7 3, function_name $L__info_string0, inlined_at 1 41 5\nst.shared.u32 [4], 1;\nret;"
    )
    text = kernel_text(body, []).replace(".visible", '.file 1 "k.cu"\n.file 2 "h.cuh"\n.visible')
    report = tilewright.emulate(text, "k", (1,), (1,), [], shared_bytes=8)
    assert [(row.file, row.line) for row in report.accesses] == [("k.cu", 40), ("k.cu", 41)]


def test_numbers_are_plain_integers(execute: Execute) -> None:
    report = execute(BODY, np.zeros(100, "u4"))
    for row in report.accesses:
        fields = (row.line, row.requests, row.wavefronts, row.wavefronts_ideal)
        assert all(type(n) is int for n in (*fields, row.sectors, row.sectors_ideal, row.bytes))
    for finding in report.findings:
        numbers = (finding.line, finding.block, finding.warp, finding.lane, finding.address)
        assert all(type(n) is int for n in numbers)
    assert all(type(n) is int for n in report.instructions.values())


def test_constants_come_through_a_cache_of_their_own(execute: Execute) -> None:
    module = ".const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0};"
    out = np.zeros(32, "u4")
    body = (
        "mov.u64 %d1, table; ld.const.u32 %r1, [%d1+4]; add.u64 %d2, %d0, %d99;\n"
        "st.global.u32 [%d2], %r1;"
    )
    report = execute(body, out, module=module)
    assert out.tolist() == [2] * 32
    load, store = report.accesses
    assert (load.space, load.requests, load.bytes, load.sectors) == ("const", 1, 128, 0)
    assert (store.space, store.sectors) == ("global", 4)
    assert report.totals["global_sectors"] == 4
