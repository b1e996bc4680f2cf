"""Kernels with the bugs that people make: what is found, and at which line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.emulator.report import Report

FILE = Path(__file__).parent / "corpus" / "broken.cu"
_MARKER = re.compile(r"// FOUND ([\w|-]+) (\w+)$")
MARKED = {  # kernel: line, kinds
    found[2]: (number, set(found[1].split("|")))
    for number, line in enumerate(FILE.read_text(encoding="utf-8").splitlines(), 1)
    if (found := _MARKER.search(line))
}

pytestmark = pytest.mark.usefixtures("compiler")


def floats(count: int) -> Any:
    return np.arange(1, count + 1, dtype="f4")


def nan(count: int) -> Any:
    return np.full(count, np.nan, "f4")


def ints(count: int, value: int = 0) -> Any:
    return np.full(count, value, "i4")


class Case:
    """A launch; `right` is the argument 0 that comes out all the same, in lockstep."""

    def __init__(
        self,
        kernel: str,
        grid: int,
        block: int,
        args: Sequence[Any],
        right: Any = None,
        missed: str = "",
        **how: Any,
    ) -> None:
        self.kernel, self.grid, self.block, self.args = kernel, grid, block, args
        self.right, self.how = right, how
        marks = (
            [pytest.mark.xfail(reason=missed, raises=AssertionError, strict=True)] if missed else []
        )
        self.param = pytest.param(self, id=kernel, marks=marks)


CASES = [
    Case("no_barrier_before_reading", 1, 128, [nan(128), floats(128)], floats(128)[::-1]),
    Case("no_barrier_before_reuse", 1, 64, [nan(64), floats(192), 3], np.full(64, 18528, "f4")),
    Case("warp_synchronous", 1, 32, [nan(1), floats(64)]),
    Case(
        "volatile_but_not_synchronised",
        1,
        32,
        [nan(1), floats(64)],
        [2080],
    ),
    Case("one_too_many", 3, 32, [nan(75), floats(75), 75], 2 * floats(75)),
    Case("halo_forgotten", 1, 64, [nan(64), floats(64)]),
    Case("odd_rows_of_float4", 1, 32, [nan(128), floats(170), 5]),
    Case(
        "counters_not_cleared",
        1,
        64,
        [ints(32), ints(64, 3)],
    ),
    Case("tail_forgotten", 1, 32, [nan(75), floats(75), 75]),
    Case("sum_without_atomics", 3, 32, [np.zeros(1, "f4"), floats(96)]),
    Case("last_block_without_fence", 5, 1, [nan(1), nan(5), floats(5)], [30]),
    Case("barrier_in_a_branch", 1, 64, [nan(64), floats(64), 40]),
    Case("two_barriers_for_one", 1, 64, [nan(64), floats(64)]),
    Case("barrier_that_half_a_warp_skips", 1, 64, [nan(64), floats(64), 40]),
    Case("some_warps_never_come", 1, 96, [nan(96), floats(96)]),
    Case("nobody_sets_the_flag", 2, 32, [nan(32), ints(1)]),
    Case("copy_not_waited_for", 1, 32, [nan(128), floats(128)]),
    Case("one_group_too_many", 1, 32, [nan(32), floats(384), 3]),
    Case("copied_over_what_is_read", 1, 64, [nan(64), floats(768), 3]),
    Case("everybody_writes_it", 1, 32, [ints(1), ints(32, 5)]),
    Case("global_winner", 1, 32, [ints(1), ints(32, 5)]),
    Case("shuffle_from_the_absent", 1, 32, [nan(20), floats(20), 20]),
    Case("full_mask_in_a_branch", 1, 32, [nan(32), floats(32), 20]),
    Case("assertion", 1, 32, [nan(32), floats(32) - 9, 32]),
    Case("dynamic_size_in_elements", 1, 64, [nan(64), floats(64)], shared_bytes=64),
    Case("two_names_for_one_place", 1, 64, [nan(64), floats(64)], shared_bytes=512),
    Case("in_place_stencil", 3, 64, [floats(150), 150]),
    Case("lock_without_fence", 3, 32, [np.zeros(1, "f8"), ints(1)], [3]),
    Case("uninitialised_local", 1, 32, [nan(32), 5]),
    Case("output_read_before_written", 1, 32, [nan(32), floats(32)]),
    Case("wait_in_the_wrong_order", 3, 32, [ints(3), ints(1)]),
]


def emulate(case: Case, **order: Any) -> tuple[Report, list[Any]]:
    args = [each.copy() if isinstance(each, np.ndarray) else each for each in case.args]
    report = tilewright.emulate(
        FILE, case.kernel, (case.grid,), (case.block,), args, **case.how, **order
    )
    return report, args


@pytest.mark.parametrize("case", [case.param for case in CASES])
def test_the_bug_is_found_at_its_line(case: Case) -> None:
    line, kinds = MARKED[case.kernel]
    for seed in (None, 1, 2):
        order = {} if seed is None else {"schedule": "random", "seed": seed}
        report, args = emulate(case, **order)
        found = {it.kind for it in report.findings if line in (it.line, it.other_line)}
        assert kinds & found, [(it.kind, it.line, it.message) for it in report.findings]
        if case.right is not None and not order:
            np.testing.assert_array_equal(args[0], case.right)


def test_every_marked_kernel_is_run() -> None:
    assert MARKED.keys() == {case.kernel for case in CASES}
