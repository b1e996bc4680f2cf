"""Foreign PTX without one of its synchronisations: the emulator misses each that is gone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright

FOLDER = Path(__file__).parent / "corpus"
SYNC = re.compile(
    r"^\s*(?P<sync>cp\.async\.wait_group\s+\d+|cp\.async\.wait_all|bar\.sync\s+0"
    r"|mbarrier\.(?:test|try)_wait\S* P_OUT, .*"
    r"|mbarrier\.arrive\S*\s+\S+\s+\[.*|cp\.async\.mbarrier\.arrive\S* .*"
    r"|mbarrier\.init\S* .*);(?://.*)?",
    re.M,
)
MISSED = {  # what says that it is gone: one of these at least
    "bar.sync": {"race"},
    "cp.async.wait_group": {"async-read"},
    "cp.async.wait_all": {"async-read"},
    "cp.async.mbarrier.arrive": {"async-read"},
    "mbarrier.init": {"invalid-barrier"},
    "mbarrier.arrive": {"deadlock", "race"},
    "mbarrier.test_wait": {"deadlock", "race", "async-read"},
    "mbarrier.try_wait": {"deadlock", "race", "async-read"},
}
RANDOM = np.random.default_rng(41)


def normal(*shape: int, dtype: str = "f2") -> Any:
    return RANDOM.standard_normal(shape).astype(dtype)


def product(m: int, n: int, k: int) -> list[Any]:
    return [np.full((m, n), np.nan, "f4"), normal(m, k), normal(n, k), m, n, k]


@dataclass(frozen=True)
class Case:
    file: str
    kernel: str
    grid: Sequence[int]
    block: int
    args: Callable[[], list[Any]]
    shared: int = 0

    def lines(self) -> Iterator[int]:
        """Lines of the kernel that synchronise, counted from 1."""
        text = (FOLDER / self.file).read_text(encoding="utf-8")
        start = text.index(f".entry {self.kernel}(")
        end = text.find(".entry", start + 8)
        for match in SYNC.finditer(text, start, end if end > 0 else len(text)):
            yield text.count("\n", 0, match.start("sync")) + 1

    def without(self, line: int) -> str:
        """The text without one of them; a wait that is gone says that all have come."""
        lines = (FOLDER / self.file).read_text(encoding="utf-8").splitlines()
        lines[line - 1] = "mov.pred P_OUT, 1;" if "P_OUT" in lines[line - 1] else ""
        return "\n".join(lines) + "\n"


def tiles(count: int, width: int, threads: int) -> Callable[[], list[Any]]:
    """Of a kernel that sums `count` tiles for each of 2 blocks."""
    return lambda: [
        np.full((2, threads), np.nan, "f4"),
        normal(2, count, width, dtype="f4"),
        count,
    ]


CASES = [
    Case("nvcc/cute_fp16.ptx", "gemm", (1, 1), 128, lambda: product(64, 64, 320)),
    Case("nvcc/memcpy_async.ptx", "sums", (2,), 64, tiles(4, 256, 64)),
    Case("nvcc/barrier.ptx", "roles", (2,), 128, tiles(5, 64, 64)),
    Case("nvcc/barrier_sm90.ptx", "roles", (2,), 128, tiles(5, 64, 64)),
    Case("nvcc/barrier.ptx", "copies", (2,), 64, tiles(4, 256, 64)),
    Case("nvcc/pipeline.ptx", "own", (2,), 64, tiles(5, 256, 64)),
    Case("nvcc/pipeline.ptx", "shared", (2,), 128, tiles(5, 128, 96)),
    Case("cute_dsl/gemm_f16.ptx", "kernel", (2, 1), 128,
         lambda: [normal(64, 320), normal(128, 320), np.full((64, 128), np.nan, "f4")],
         49152),
    Case("tilelang/matmul_f16.ptx", "main_kernel", (2, 3), 128,
         lambda: [normal(150, 208), normal(208, 112), np.full((150, 112), np.nan, "f2")],
         24576),
]  # fmt: skip
MUTANTS = [
    pytest.param(case, line, id=f"{case.file}-{case.kernel}-{line}")
    for case in CASES
    for line in case.lines()
]


def emulated(case: Case, text: str) -> Any:
    return tilewright.emulate(
        text, case.kernel, case.grid, (case.block,), case.args(), shared_bytes=case.shared
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}-{case.kernel}")
def test_the_kernels_are_clean(case: Case) -> None:
    text = (FOLDER / case.file).read_text(encoding="utf-8")
    assert emulated(case, text).findings == []


@pytest.mark.parametrize(("case", "line"), MUTANTS)
def test_what_is_gone_is_missed(case: Case, line: int) -> None:
    removed = (FOLDER / case.file).read_text(encoding="utf-8").splitlines()[line - 1].strip()
    (expected,) = (kinds for start, kinds in MISSED.items() if removed.startswith(start))
    assert expected & {it.kind for it in emulated(case, case.without(line)).findings}
