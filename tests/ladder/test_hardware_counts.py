"""The emulator's counts of whole launches against an H200's counters, read with Nsight Compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.bench.ladder import Row, climb

DATA = json.loads((Path(__file__).parent.parent / "data/rung_counts_h200.json").read_text())
pytestmark = pytest.mark.usefixtures("compiler")


def emulated(launch: dict[str, Any]) -> Row:
    extents = {axis: launch[axis] for axis in "mnk"}
    (row,) = climb(
        **extents, dtype=launch["dtype"], rungs=[launch["name"]], engine="emulator", gpu="h200"
    )
    return row


@pytest.mark.parametrize(
    "launch", DATA["launches"], ids=lambda x: f"{x['name']}-{x['m']}x{x['n']}x{x['k']}"
)
def test_equal(launch: dict[str, Any]) -> None:
    row, counters = emulated(launch), launch["counters"]
    assert row.shared_wavefronts == counters["memory_l1_wavefronts_shared"]
    assert row.shared_wavefronts_ideal == counters["memory_l1_wavefronts_shared_ideal"]
    assert row.bank_conflicts == counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"]
    assert row.global_sectors == counters["memory_l2_theoretical_sectors_global"]
    assert row.global_sectors_store == counters["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"]
    without_copies = (row.shared_wavefronts_ldmatrix or 0) + (row.shared_wavefronts_ldst or 0)
    by_unit = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
    assert without_copies == counters[by_unit.format("ld")] + counters[by_unit.format("st")]
