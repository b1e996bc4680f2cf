"""What the Hopper rungs synchronise with is needed: the emulator misses each piece when it is gone.

A mutant lacks one call of a barrier, fence, wait or commit, an arrival or what it expects. The ring
goes round three times and more, and a persistent block has two tiles. Each statement is taken out
of the rung that brings it: rungs repeat what those below them have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tilewright.build import Source, build
from tilewright.dtypes import BF16
from tilewright.emulator.parse import parse
from tilewright.emulator.report import Report
from tilewright.emulator.run import How
from tilewright.ladder.hopper_rung import HopperRung
from tilewright.ladder.rungs import KERNEL, KERNELS
from tilewright.problem import Problem

pytestmark = pytest.mark.usefixtures("compiler")

Executed = Callable[..., tuple[Report, bool]]

RUNGS = [rung for rung in KERNELS.values() if isinstance(rung, HopperRung)]
_CALLS = (
    r"__sync(?:threads|warp)"
    r"|ptx::(?:mbarrier_(?:init|arrive|wait)|fence_|wgmma_(?:fence|commit|wait)|barrier_cluster_"
    r"|bar_sync|cp_async_bulk_(?:commit|wait)|griddepcontrol_)\w*"
    r"|release"
)
_NESTED = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
SYNC = re.compile(rf"(?:if {_NESTED} )?(?:{_CALLS})(?:<[^>]+>)?{_NESTED};")
EXPECT = re.compile(r"ptx::mbarrier_arrive_expect_tx\((.*?), A::BYTES \+ B::BYTES\);")
ALL_IN = ("hopper_tma_mma", "hopper_ring", "hopper_roles", "hopper_cluster", "hopper_best")

IN_A_BLOCK = (
    "no other block touches these barriers, and __syncthreads orders mbarrier.init before all that "
    "use them, copies too, as libcu++ relies on (docs/emulator.md, proxy-fence)"
)
NO_INSTRUCTION = "an empty asm that keeps ptxas from moving registers: PTX has the same without it"
OTHER_WAITS = (
    "the block stays as long as one of its warpgroups waits, and all others wait at the same "
    "barrier; without both waits see test_a_block_that_nobody_holds_leaves_too_early"
)
SAME_INSTRUCTION = (
    ".aligned wants all lanes at the same instruction, and they are: the branch over the loop ends "
    "before it, as one before a __syncthreads() does"
)
OTHER_LAUNCHES = "orders launches of a stream; the emulator runs one, and griddepcontrol is nothing"
REDUNDANT = {  # (rung, statement) → why its absence is no fault, or none that one launch can show
    **{
        (rung.name, "ptx::fence_mbarrier_init();"): IN_A_BLOCK
        for rung in RUNGS
        if rung.cluster_m == 1
    },
    **{
        (rung.name, "ptx::wgmma_fence_operands(acc);"): NO_INSTRUCTION
        for rung in RUNGS
        if rung.wgmma
    },
    **{
        (rung.name, statement): why
        for rung in RUNGS
        if rung.cluster_m > 1
        for statement, why in (
            ("return ptx::barrier_cluster_wait_acquire();", OTHER_WAITS),
            ("ptx::barrier_cluster_wait_acquire(); }", OTHER_WAITS),
            ("__syncwarp();", SAME_INSTRUCTION),
        )
    },
    ("hopper_best", "ptx::griddepcontrol_launch_dependents();"): OTHER_LAUNCHES,
    ("hopper_best", "ptx::griddepcontrol_wait();"): OTHER_LAUNCHES,
}


@dataclass(frozen=True)
class Mutant:
    """A rung whose text has `instead` between the places `start` and `end`."""

    rung: HopperRung
    start: int
    end: int
    instead: str = ";"

    @property
    def text(self) -> str:
        return self.rung.text[: self.start] + self.instead + self.rung.text[self.end :]

    @property
    def statement(self) -> str:
        """What is removed; with what stands beside it where that tells it from another."""
        before, after = self.rung.text[: self.start], self.rung.text[self.end :]
        told = self.rung.text[self.start : self.end]
        returned = "return " if before.endswith("return ") else ""
        return returned + told + (" }" if after.startswith("\n}") else "")

    @property
    def why_not(self) -> str | None:
        """Why it does no harm."""
        return REDUNDANT.get((self.rung.name, self.statement))

    def __str__(self) -> str:
        line = self.rung.text.count("\n", 0, self.start) + 1
        changed = " ".join(self.statement.split())[:48]
        return f"{self.rung.name}-line{line}-{changed}{'' if self.instead == ';' else '-expect'}"


def mutants_of(rung: HopperRung) -> Iterator[Mutant]:
    begin = rung.text.index('extern "C"')
    for match in SYNC.finditer(rung.text, begin):
        yield Mutant(rung, match.start(), match.end())
    for match in EXPECT.finditer(rung.text, begin):
        yield Mutant(rung, match.start(), match.end(), f"ptx::mbarrier_arrive({match[1]});")


def mutants() -> Iterator[Mutant]:
    """All of the rungs that bring something, and of the others what none of those has."""
    whole = [mutant for name in ALL_IN for mutant in mutants_of(_rung(name))]
    yield from whole
    seen = {(mutant.statement, mutant.instead) for mutant in whole}
    for rung in RUNGS:
        for mutant in mutants_of(rung):
            if (mutant.statement, mutant.instead) not in seen:
                seen.add((mutant.statement, mutant.instead))
                yield mutant


def _rung(name: str) -> HopperRung:
    return next(rung for rung in RUNGS if rung.name == name)


def three_laps(rung: HopperRung) -> Problem:
    """Two tiles of C, or of a cluster, one below the other and cut; more than three laps.

    A persistent block has them one after the other in one ring, others have one each.
    """
    laps = 3 * rung.buffers + 1
    steps = -(-laps // 2) if rung.persistent else laps
    m = 2 * rung.cluster_m * rung.tile.bm - 8
    return Problem(m, rung.tile.bn, steps * rung.tile.bk, BF16, "nt")


MUTANTS = list(mutants())
NEEDED = [mutant for mutant in MUTANTS if mutant.why_not is None]
HARMLESS = [mutant for mutant in MUTANTS if mutant.why_not is not None]


@pytest.mark.parametrize("mutant", NEEDED, ids=str)
def test_what_is_missing_is_found(executed_rung: Executed, mutant: Mutant) -> None:
    report, _ = executed_rung(mutant.rung, mutant.text, three_laps(mutant.rung), "sm_90")
    assert report.findings, f"{mutant} goes unnoticed"


@pytest.mark.parametrize("mutant", HARMLESS, ids=str)
def test_what_is_redundant_is_not_missed(executed_rung: Executed, mutant: Mutant) -> None:
    report, right = executed_rung(mutant.rung, mutant.text, three_laps(mutant.rung), "sm_90")
    assert (report.findings, report.completed, right) == ([], True, True), mutant.why_not


def test_every_reason_belongs_to_a_statement() -> None:
    there = {(mutant.rung.name, mutant.statement) for rung in RUNGS for mutant in mutants_of(rung)}
    assert set(REDUNDANT) <= there


def test_every_call_that_synchronises_is_taken_out() -> None:
    """So that a new spelling of one cannot hide: whatever of these words a kernel has."""
    words = re.compile(r"\w*(?:arrive|wait|fence|(?<!a)sync|commit|expect)\w*(?:<[^>]+>)?\(")
    for rung in RUNGS:
        covered = [(mutant.start, mutant.end) for mutant in mutants_of(rung)]
        for match in words.finditer(rung.text, rung.text.index('extern "C"')):
            if match.group() in ("elect_sync(", "__shfl_sync("):
                continue  # who is elected, and a broadcast: no synchronisation
            inside = any(start <= match.start() < end for start, end in covered)
            assert inside, f"{rung.name}: {match.group()}"


def test_operands_are_fenced_by_no_instruction() -> None:
    (mutant,) = [it for it in mutants_of(_rung("hopper_ring")) if "operands" in it.statement]
    problem, found = three_laps(mutant.rung), []
    for text in (mutant.rung.text, mutant.text):
        source = Source(mutant.rung.file, text, mutant.rung.defines(BF16, problem.layout))
        module = parse(build(source, "sm_90a").ptx)
        opcodes = [it.opcode for it in module.kernels[KERNEL].instructions]
        found.append([opcode for opcode in opcodes if not str(opcode).startswith("mov")])
    assert found[0] == found[1]


def test_a_block_that_nobody_holds_leaves_too_early(executed_rung: Executed) -> None:
    """Either wait of the last barrier.cluster would do, and none does not."""
    rung = _rung("hopper_cluster")
    last = [
        mutant
        for mutant in mutants_of(rung)
        if mutant.why_not == OTHER_WAITS and "wait_acquire" in mutant.statement
    ]
    text = rung.text
    for mutant in reversed(last):
        text = text[: mutant.start] + mutant.instead + text[mutant.end :]
    assert len(last) == 2
    report, _ = executed_rung(rung, text, three_laps(rung), "sm_90")
    assert "ended-peer" in {finding.kind for finding in report.findings}


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_they_are_clean_in_a_random_order_of_warps(
    executed_rung: Executed, rung: HopperRung
) -> None:
    how = How(seed=RUNGS.index(rung))
    report, right = executed_rung(rung, rung.text, three_laps(rung), "sm_90", how)
    assert (report.findings, report.completed, right) == ([], True, True)
