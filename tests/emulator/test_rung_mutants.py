"""Every barrier and every wait of every rung is needed: the emulator misses it when it is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from tilewright.build import Source, build
from tilewright.dtypes import BF16, DTYPES
from tilewright.emulator.arguments import pack
from tilewright.emulator.compiler import compile_kernel
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.parse import parse
from tilewright.emulator.report import Report
from tilewright.emulator.run import How, run
from tilewright.emulator.trace import Shape
from tilewright.ladder.rungs import KERNEL, KERNELS, KernelRung
from tilewright.launch import gemm_args
from tilewright.problem import Problem
from tilewright.verify import judge, oracle, random_operands

SYNC = re.compile(
    r"__sync(?:threads|warp)\(\);|ptx::cp_async_(?:wait_group<[^>]+>|commit_group)\(\);"
)
SMS = 1  # so that a persistent block goes on from one tile to the next


@dataclass(frozen=True)
class Mutant:
    """A rung without the `number`-th of its synchronisations."""

    rung: KernelRung
    number: int

    @property
    def removed(self) -> str:
        return [match.group() for match in SYNC.finditer(self.rung.text)][self.number]

    @property
    def line(self) -> int:
        match = list(SYNC.finditer(self.rung.text))[self.number]
        return self.rung.text.count("\n", 0, match.start()) + 1

    @property
    def text(self) -> str:
        match = list(SYNC.finditer(self.rung.text))[self.number]
        return self.rung.text[: match.start()] + ";" + self.rung.text[match.end() :]

    def __str__(self) -> str:
        return f"{self.rung.name}-line{self.line}-{self.removed}"


def mutants() -> Iterator[Mutant]:
    for rung in KERNELS.values():
        for number in range(len(SYNC.findall(rung.text))):
            yield Mutant(rung, number)


def five_steps(rung: KernelRung) -> Problem:
    """Five steps along K, so that each slot of a ring is filled again.

    Two tiles; one where FMAs make the emulator slow.
    """
    tile, dtype = rung.tile, DTYPES[rung.dtypes[0]]
    m, n = (tile.bm, tile.bn) if tile.tm else (128, 256)
    return Problem(m, n, 5 * tile.bk, dtype)


def executed(
    rung: KernelRung, text: str, how: How | None = None, problem: Problem | None = None
) -> tuple[Report, bool]:
    """The report, and whether the result is right."""
    problem = problem or five_steps(rung)
    dtype = problem.dtype
    artifact = build(Source(rung.file, text, rung.defines(dtype)), "sm_80")
    module = parse(artifact.ptx)
    program = compile_kernel(module, module.kernels[KERNEL])
    m, n, k = problem.m, problem.n, problem.k
    a, b = random_operands(m, n, k, dtype, seed=3)
    c = np.full((m, n), np.nan, np.float32).astype(dtype.numpy())
    memory = GlobalMemory()
    at_a, at_b = memory.allocate(a, "A"), memory.allocate(b, "B")
    at_c = memory.allocate(c, "C", unset=True)
    params = pack(program.kernel, (gemm_args(at_a, at_b, at_c, m, n, k),))
    shape = Shape(rung.grid(problem, SMS), (rung.threads, 1, 1), rung.shared_bytes(dtype), params)
    report = run(program, shape, memory, how=how)
    return report, judge(c, oracle(a, b, dtype)).correct


@pytest.mark.parametrize("mutant", list(mutants()), ids=str)
def test_a_missing_synchronisation_is_found(compiler: str, mutant: Mutant) -> None:
    report, _ = executed(mutant.rung, mutant.text)
    assert report.findings, f"{mutant} goes unnoticed"
    assert {finding.kind for finding in report.findings} <= {"race", "async-read", "uninitialised"}
    assert all(finding.file.endswith(f"{mutant.rung.name}.cu") for finding in report.findings)


@pytest.mark.parametrize("rung", list(KERNELS.values()), ids=lambda rung: rung.name)
def test_the_rungs_are_clean_in_any_order_of_warps(compiler: str, rung: KernelRung) -> None:
    report, right = executed(rung, rung.text)
    assert (report.findings, right) == ([], True)
    for seed in range(20):
        report, right = executed(rung, rung.text, How(seed=seed))
        assert (report.findings, right) == ([], True), f"seed {seed}"


ARTICLE = (
    "const int id = blockIdx.x, grid_y = g.M / BM;\n"
    "  const tile::Tile at = {id / 8 % grid_y, id % 8 + id / (8 * grid_y) * 8};"
)


def test_the_article_s_grid_swizzle_leaves_the_grid(compiler: str) -> None:
    """With fewer than 8 blocks in a row its column runs past the end, and half of C is left."""
    rung = KERNELS["hgemm_naive"]
    raster = "const tile::Tile at = tile::raster<8>(blockIdx.x, g.M / BM, g.N / BN);"
    assert raster in rung.text
    square = Problem(256, 256, 256, BF16)
    text = rung.text.replace(raster, ARTICLE)
    report, right = executed(rung, text, problem=square)
    assert not right
    found = {finding.kind: finding for finding in report.findings}
    assert found["out-of-bounds"].array == "B"
    assert "load();" in text.splitlines()[found["out-of-bounds"].line - 1]
    # The lower half, but for the row into which the stores beyond the last column wrap.
    assert "32512 of 65536 elements of C are never written" in found["unwritten"].message
