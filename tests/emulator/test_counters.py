"""Counts of kernels that perform the recorded accesses of an H200, one kernel a row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.emulator.arrays import Array
from tilewright.emulator.counters import INACTIVE, Counters, Tally, priced, relative
from tilewright.model import banks

Execute = Callable[..., Any]
Row = dict[str, Any]

DATA = Path(__file__).parents[1] / "data"
EVERY = 6  # of the rows that partly active warps made, one in so many: test_banks.py has all

SHARED = 48 * 1024
FOUR = ["%r20", "%r21", "%r22", "%r23"]


def rows(name: str, every: int = 1) -> list[Row]:
    found: list[Row] = json.loads((DATA / name).read_text())["accesses"]
    kinds: dict[str, list[Row]] = {}
    for row in found:
        kinds.setdefault(row["kind"], []).append(row)
    return [row for same in kinds.values() for row in same[::every]]


def name_of(row: Row) -> str:
    return f"{row['id']}-{row['kind']}"


def registers(count: int) -> str:
    return "{" + ", ".join(FOUR[:count]) + "}" if count > 1 else FOUR[0]


def instruction(kind: str) -> str:
    """The PTX of a recorded kind; %r10 is the shared address, %d10 the global one."""
    number = int("".join(filter(str.isdigit, kind)))
    match kind[:3]:
        case "LDS" if kind.startswith("LDSM"):
            trans = ".trans" if kind.endswith("T") else ""
            regs = "{" + ", ".join(FOUR[:number]) + "}"
            return f"ldmatrix.sync.aligned.m8n8.x{number}{trans}.shared.b16 {regs}, [%r10];"
        case "STS" if kind.startswith("STSM"):
            trans = ".trans" if kind.endswith("T") else ""
            regs = "{" + ", ".join(FOUR[:number]) + "}"
            return f"stmatrix.sync.aligned.m8n8.x{number}{trans}.shared.b16 [%r10], {regs};"
        case "CPA":
            cache, size = ("cg", 16) if kind == "CPA16CG" else ("ca", number)
            return f"cp.async.{cache}.shared.global [%r10], [%d10], {size};"
    space, address = ("shared", "%r10") if kind[2] == "S" else ("global", "%d10")
    words = max(number // 32, 1)
    form = f".v{words}.b32" if words > 1 else f".b{number}"
    if kind.startswith("LD"):
        return f"ld.{space}{form} {registers(words)}, [{address}];"
    return f"st.{space}{form} [{address}], {registers(words)};"


def run_row(execute: Execute, row: Row, **shape: Any) -> Any:
    shared = np.array(row.get("shared", [0] * 32), "u4")
    global_ = np.array(row.get("global_", [0] * 32), "u4")
    active = row.get("active", 0xFFFF_FFFF)
    data = np.zeros(1 << 17, "u1")
    body = f"""
      add.s64 %d1, %d1, %d99; ld.global.u32 %r10, [%d1];
      add.s64 %d2, %d2, %d99; ld.global.u32 %r11, [%d2]; cvt.u64.u32 %d10, %r11;
      add.s64 %d10, %d0, %d10; shr.u32 %r12, {active}, %r99; and.b32 %r12, %r12, 1;
      setp.eq.u32 %p1, %r12, 1;
      @%p1 {instruction(row["kind"])} ret;
    """
    # Unset shared memory is read: what counts here is the price.
    report = execute(body, data, shared, global_, shared_bytes=SHARED, checks=False, **shape)
    assert report.findings == []
    return report.accesses[-1]


@pytest.mark.parametrize("row", rows("access_counts_h200.json"), ids=name_of)
def test_regular_accesses(execute: Execute, row: Row) -> None:
    found, counts = run_row(execute, row), row["counts"]
    assert (found.requests, found.wavefronts, found.wavefronts_ideal) == (
        1,
        counts["wavefronts"],
        counts["wavefronts_ideal"],
    )
    assert (found.sectors, found.sectors_ideal) == (counts["sectors"], counts["sectors_ideal"])


@pytest.mark.parametrize("row", rows("access_counts_h200_partial.json", EVERY), ids=name_of)
def test_partly_active_warps_cost_what_the_model_says(execute: Execute, row: Row) -> None:
    """model/test_banks.py holds the model to the counters; here it is the way to it."""
    found = run_row(execute, row, grid=(2,))
    active, kind = row.get("active", 0xFFFF_FFFF), row["kind"]

    def lanes(name: str) -> list[int | None]:
        return [a if active >> i & 1 else None for i, a in enumerate(row.get(name, [0] * 32))]

    number = int("".join(filter(str.isdigit, kind)))
    if kind.startswith("CPA"):
        cost = (
            banks.cp_async_cg(lanes("shared"), lanes("global_"))
            if kind == "CPA16CG"
            else banks.cp_async_ca(lanes("shared"), lanes("global_"), number)
        )
    elif "M" in kind:
        cost = banks.ldmatrix(lanes("shared"), number)
    elif kind[2] == "G":
        cost = banks.global_access(lanes("global_"), number // 8)
    else:
        price = banks.shared_load if kind[0] == "L" else banks.shared_store
        cost = price(lanes("shared"), number // 8)
    assert (found.requests, found.wavefronts, found.wavefronts_ideal) == (
        2,
        2 * cost.wavefronts,
        2 * cost.wavefronts_ideal,
    )
    assert (found.sectors, found.sectors_ideal) == (2 * cost.sectors, 2 * cost.sectors_ideal)


def test_every_recorded_kind_is_run_here() -> None:
    kinds = {row["kind"] for row in rows("access_counts_h200.json")}
    assert {k[:3] for k in kinds} == {"LDS", "STS", "CPA", "LDG", "STG"}
    assert {k for k in kinds if "M" in k} >= {"LDSM1", "LDSM2T", "LDSM4", "STSM4", "STSM4T"}


# --- Weights ----------------------------------------------------------------------------


def test_warps_and_blocks_with_addresses_of_their_own(execute: Execute) -> None:
    """Block b, warp w strides by b + 1 words, in a line of its own."""
    body = """mov.u32 %r1, %ctaid.x; add.u32 %r2, %r1, 1; and.b32 %r3, %r99, 31;
      mul.lo.u32 %r3, %r3, %r2; shl.b32 %r3, %r3, 2; shr.u32 %r4, %r99, 5;
      mad.lo.u32 %r3, %r4, 4096, %r3; ld.shared.u32 %r5, [%r3]; cvt.u64.u32 %d3, %r3;
      add.s64 %d0, %d0, %d3; st.global.u32 [%d0], %r5; ret;"""
    report = execute(body, np.zeros(4096, "u4"), grid=(4,), block=(96,), shared_bytes=16384)
    load, store = report.accesses
    assert (load.requests, load.wavefronts, load.wavefronts_ideal) == (12, 3 * (1 + 2 + 1 + 4), 12)
    assert (store.requests, store.sectors, store.sectors_ideal) == (12, 3 * (4 + 8 + 12 + 16), 48)


def test_lanes_that_fault_cost_nothing(execute: Execute) -> None:
    body = """mul.lo.u32 %r1, %r99, 128; ld.shared.u32 %r2, [%r1];
      ld.global.u32 %r3, [%d0+4096]; ret;"""
    shared, global_ = execute(body, np.zeros(8, "u4"), shared_bytes=1024).accesses
    assert (shared.requests, shared.wavefronts, shared.bytes) == (1, 8, 32)
    assert (global_.requests, global_.sectors, global_.bytes) == (0, 0, 0)


def test_a_loop_adds_up(execute: Execute) -> None:
    body = """mov.u32 %r1, 0; L: mad.lo.u32 %r2, %r99, 4, 0; ld.shared.u32 %r3, [%r2];
      add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1500; @%p1 bra L; ret;"""
    (row,) = execute(body, shared_bytes=128, grid=(2,)).accesses
    assert (row.requests, row.wavefronts, row.bytes) == (3000, 3000, 3000 * 128)


def row_of(lanes: list[int]) -> Array:
    return np.array(lanes, np.int64).reshape(1, 1, -1)


def test_relative_distances_start_at_a_line() -> None:
    address = row_of([1000 + 4 * lane for lane in range(32)])
    assert relative(address, None)[0, 0, :2].tolist() == [1000 % 128, 1000 % 128 + 4]
    active = np.zeros((1, 1, 32), bool)
    active[0, 0, 8] = True
    distance = relative(address, active)
    assert distance[0, 0, 8] == 1032 % 128
    assert set(distance[0, 0].tolist()) == {8, INACTIVE}


def test_prices_are_remembered_and_forgotten_without_a_change() -> None:
    counters, calls = Counters(), []

    def price(addresses: list[int | None]) -> banks.Cost:
        calls.append(addresses)
        return banks.Cost(1, 1)

    for step in (*range(3000), *range(3000)):
        counters.count(0, price, 4, [row_of([step * 4])], blocks=2)
    assert counters.tallies[0] == Tally(12000, 12000, 12000, 0, 0, 48000)
    assert len(calls) == 3000
    assert priced(banks.shared_load, 4) is priced(banks.shared_load, 4)
