"""Every barrier and every wait of every rung is needed: the emulator misses it when it is gone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tilewright.dtypes import BF16, DTYPES
from tilewright.emulator.report import Report
from tilewright.emulator.run import How
from tilewright.ladder.rungs import KERNELS, KernelRung
from tilewright.problem import Problem

SYNC = re.compile(
    r"__sync(?:threads|warp)\(\);|ptx::cp_async_(?:wait_group<[^>]+>|commit_group)\(\);"
)
# Those of TMA and mbarriers have mutants of their own, in test_hopper_mutants.py.
RUNGS = [rung for rung in KERNELS.values() if rung.family != "hopper"]
Executed = Callable[..., tuple[Report, bool]]


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
    for rung in RUNGS:
        for number in range(len(SYNC.findall(rung.text))):
            yield Mutant(rung, number)


def five_steps(rung: KernelRung) -> Problem:
    """Five steps along K, so that each slot of a ring is filled again.

    Two tiles; one where FMAs make the emulator slow.
    """
    tile, dtype = rung.tile, DTYPES[rung.dtypes[0]]
    m, n = (tile.bm, tile.bn) if tile.tm else (128, 256)
    return Problem(m, n, 5 * tile.bk, dtype)


@pytest.mark.parametrize("mutant", list(mutants()), ids=str)
def test_a_missing_synchronisation_is_found(executed_rung: Executed, mutant: Mutant) -> None:
    report, _ = executed_rung(mutant.rung, mutant.text, five_steps(mutant.rung))
    assert report.findings, f"{mutant} goes unnoticed"
    assert {finding.kind for finding in report.findings} <= {"race", "async-read", "uninitialised"}
    assert all(finding.file.endswith(f"{mutant.rung.name}.cu") for finding in report.findings)


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
@pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, 20), marks=pytest.mark.nightly)], ids=["few", "many"]
)
def test_the_rungs_are_clean_in_any_order_of_warps(
    executed_rung: Executed, rung: KernelRung, seeds: range
) -> None:
    problem = five_steps(rung)
    report, right = executed_rung(rung, rung.text, problem)
    assert (report.findings, right) == ([], True)
    for seed in seeds:
        report, right = executed_rung(rung, rung.text, problem, how=How(seed=seed))
        assert (report.findings, right) == ([], True), f"seed {seed}"


ARTICLE = (
    "const int id = blockIdx.x, grid_y = g.M / BM;\n"
    "  const tile::Tile at = {id / 8 % grid_y, id % 8 + id / (8 * grid_y) * 8};"
)


def test_the_article_s_grid_swizzle_leaves_the_grid(executed_rung: Executed) -> None:
    """With fewer than 8 blocks in a row its column runs past the end, and half of C is left."""
    rung = KERNELS["hgemm_naive"]
    raster = "const tile::Tile at = tile::raster<8>(blockIdx.x, g.M / BM, g.N / BN);"
    assert raster in rung.text
    square = Problem(256, 256, 256, BF16)
    text = rung.text.replace(raster, ARTICLE)
    report, right = executed_rung(rung, text, square)
    assert not right
    found = {finding.kind: finding for finding in report.findings}
    assert found["out-of-bounds"].array == "B"
    assert "load();" in text.splitlines()[found["out-of-bounds"].line - 1]
    # The lower half, but for the row into which the stores beyond the last column wrap.
    assert "32512 of 65536 elements of C are never written" in found["unwritten"].message
