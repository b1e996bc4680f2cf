"""The Hopper rungs: right on every shape they take, on both engines, with the counts they claim.

That none spills and no wgmma waits for another is in test_hopper_rung.py.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tilewright.bench.inputs import logical, operands
from tilewright.bench.ladder import Ladder, build_rung, climb, rung_launch
from tilewright.dtypes import BF16, DTYPES, DType
from tilewright.engines.base import Engine
from tilewright.errors import InputError
from tilewright.ladder.hopper_rung import HopperRung
from tilewright.ladder.rungs import KERNEL, KERNELS
from tilewright.problem import Problem
from tilewright.sass import SassInstruction, disassemble
from tilewright.verify import judge, oracle

pytestmark = pytest.mark.usefixtures("compiler")

RUNGS = [rung for rung in KERNELS.values() if isinstance(rung, HopperRung)]
NAMES = [rung.name for rung in RUNGS]
LAYOUTS = ("nn", "nt")
BEST = RUNGS[-1]

# --- run ------------------------------------------------------------------------------


def shape_of(rung: HopperRung, what: str) -> tuple[int, int, int, int]:
    """M, N, K and the multiprocessors there are: one cluster's where a block has several tiles."""
    bm, bn, bk = rung.tile.bm, rung.tile.bn, rung.tile.bk
    tall, stages, few = rung.cluster_m * bm, rung.buffers, rung.cluster_m
    shapes = {
        "almost nothing": (1, 8, 8, 132),
        "one tile, one step": (bm - 3, bn - 8, bk - 8, 132),
        "two steps": (tall + 1, bn, bk + 8, 132),
        "a step less than buffers": (bm, bn + 8, max(stages - 1, 1) * bk, 132),
        "as many steps as buffers": (tall + 56, bn - 80, stages * bk - 8, few),
        "a step more than buffers": (2 * tall - 5, bn + 120, stages * bk + 24, few),
    }
    return shapes[what]


SHAPES = (
    "almost nothing",
    "one tile, one step",
    "two steps",
    "a step less than buffers",
    "as many steps as buffers",
    "a step more than buffers",
)


def check(engine: Engine, rung: HopperRung, problem: Problem, sms: int) -> None:
    if why := rung.refusal(problem, engine.shared_bytes_limit, engine.arch):
        pytest.skip(why)
    a, b = operands(problem, "normal", seed=problem.m + problem.n + problem.k)
    out = engine.upload(np.full((problem.m, problem.n), np.nan, problem.dtype.numpy()))
    buffers = engine.upload(a), engine.upload(b), out
    artifact = build_rung(rung, problem, engine.arch)
    report = engine.launch(rung_launch(rung, artifact, problem, buffers, sms))
    verdict = judge(engine.download(out), oracle(*logical(problem, a, b), problem.dtype))
    assert verdict.correct, verdict.message
    if report is not None:
        assert report.completed
        assert report.findings == []


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("what", SHAPES)
@pytest.mark.parametrize("rung", RUNGS, ids=NAMES)
def test_right(engine: Engine, rung: HopperRung, what: str, layout: str) -> None:
    """Both types by turns, so that each layout has each."""
    m, n, k, sms = shape_of(rung, what)
    turn = SHAPES.index(what) + LAYOUTS.index(layout)
    check(engine, rung, Problem(m, n, k, dtype(turn), layout), sms)


def dtype(turn: int) -> DType:
    return DTYPES[("bf16", "fp16")[turn % 2]]


@pytest.mark.parametrize("rung", RUNGS, ids=NAMES)
def test_the_shapes_are_what_they_are_called(rung: HopperRung) -> None:
    steps = {what: -(-shape_of(rung, what)[2] // rung.tile.bk) for what in SHAPES}
    assert steps == dict(
        zip(
            SHAPES, (1, 1, 2, max(rung.buffers - 1, 1), rung.buffers, rung.buffers + 1), strict=True
        )
    )
    tiles = {}
    for what in SHAPES:
        m, n, k, sms = shape_of(rung, what)
        assert len({m, n, k}) == 3 or what == "almost nothing"
        problem = Problem(m, n, k, BF16)
        tiles[what] = rung.tiles(problem) // rung.cluster_m, rung.grid(problem, sms)[0]
    assert tiles["one tile, one step"] == (1, rung.cluster_m)
    last, blocks = tiles["a step more than buffers"]
    assert last == 4
    assert blocks == (rung.cluster_m if rung.persistent else 4)


def test_best_stores_a_tile_whose_successor_is_too_short(engine: Engine) -> None:
    """Where K has fewer steps than a tile has panels, its store finds too few products to hide."""
    check(engine, BEST, Problem(520, 384, 136, BF16, "nt"), sms=2)


@pytest.mark.parametrize(
    ("m", "n", "blocks"),
    [(4096, 4096, 128), (8192, 8192, 128), (4352, 4096, 110), (256, 256, 2), (1, 8, 2)],
)
def test_best_has_as_few_blocks_as_end_no_later(m: int, n: int, blocks: int) -> None:
    problem = Problem(m, n, 64, BF16)
    assert BEST.grid(problem, 132) == (blocks, 1, 1)
    most, tiles = max(132 // 2, 1) * 2, BEST.tiles(problem)
    assert -(-tiles // blocks) == -(-tiles // min(most, tiles))
    assert -(-tiles // (blocks - 2)) > -(-tiles // blocks) if blocks > 2 else tiles == 2


@pytest.mark.parametrize("rung", RUNGS, ids=NAMES)
@pytest.mark.parametrize(
    ("layout", "m", "n", "k", "said"),
    [
        ("nn", 1, 8, 7, "k=7 makes rows of A 14 bytes long, and TMA reaches multiples of 16: "),
        ("nn", 64, 60, 64, "n=60 makes rows of B 120 bytes long, and TMA reaches multiples of 16"),
        ("nt", 64, 60, 64, "n=60 makes rows of C 120 bytes long, and TMA reaches multiples of 16"),
    ],
)
def test_rows_that_tma_does_not_reach_are_refused(
    rung: HopperRung, layout: str, m: int, n: int, k: int, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        climb(m=m, n=n, k=k, layout=layout, rungs=rung.name, engine="emulator", gpu="h200")


# --- machine code ---------------------------------------------------------------------


def code_of(rung: HopperRung, layout: str, arch: str = "sm_90") -> list[SassInstruction]:
    code = disassemble(build_rung(rung, Problem(256, 256, 256, BF16, layout), arch).cubin)
    if code is None:
        pytest.skip("nvdisasm is not installed")
    return code[KERNEL]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rung", RUNGS, ids=NAMES)
def test_the_machine_code_is_hoppers(rung: HopperRung, layout: str) -> None:
    found = Counter(instruction.mnemonic for instruction in code_of(rung, layout))
    tile = rung.tile
    panels = tile.bn // 64
    beside = panels if rung.even else 0  # steps apart from the others, each of which stores a panel
    assert found["HGMMA"] == (tile.bk // 16 * (1 + beside) if rung.wgmma else 0)
    assert (found["HMMA"] > 0) is not rung.wgmma
    assert found["UTMALDG"] > 0
    assert found["USETMAXREG"] == (2 if rung.threads == 384 else 0)
    stored = panels * (3 if beside else 1) if rung.staged else 0
    assert (found["UTMASTG"], found["STSM"]) == (stored, 4 * stored)
    assert (found["STG"] == 0) is bool(rung.staged)
    assert found["LDL"] == found["STL"] == 0


@pytest.mark.parametrize("arch", ["sm_90", "sm_120"])
def test_tma_mma_runs_wherever_tma_is(arch: str) -> None:
    rung = KERNELS["hopper_tma_mma"]
    assert isinstance(rung, HopperRung)
    problem = Problem(256, 384, 192, BF16)
    assert rung.refusal(problem, 101376, arch) is None
    used = build_rung(rung, problem, arch).resources[KERNEL]
    assert used.spill_bytes == 0
    found = Counter(instruction.mnemonic for instruction in code_of(rung, "nn", arch))
    assert found["UTMALDG"] > 0
    assert found["HMMA"] > 0


def test_other_chips_counts_are_labelled_and_other_rungs_refused() -> None:
    ladder = climb("hopper", m=136, n=136, k=72, engine="emulator", gpu="rtx5060")
    assert [row.name for row in ladder if row.status == "ok"] == ["hopper_tma_mma"]
    assert all("H100 or H200" in (row.reason or "") for row in ladder if row.status == "skipped")
    assert "measured on sm_90; for sm_120 they are assumed" in " ".join(ladder.notes)


def step_of(code: list[SassInstruction]) -> int:
    """Instructions from the wait for a full buffer to the branch back behind its products."""
    opcodes = [instruction.opcode for instruction in code]
    products = [i for i, opcode in enumerate(opcodes) if opcode.startswith("HGMMA")][-4:]
    waits = [i for i, opcode in enumerate(opcodes) if "TRYWAIT" in opcode and i < products[0]]
    return opcodes.index("BRA", products[-1]) + 1 - waits[-1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_best_issues_little_beside_the_products(layout: str) -> None:
    before, after = (step_of(code_of(RUNGS[i], layout)) for i in (-2, -1))
    assert before >= 68
    assert after <= 53


# --- counts ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counted() -> Ladder:
    return climb("hopper", m=256, n=384, k=192, engine="emulator", gpu="h200")


def test_a_cluster_reads_b_once_for_two_blocks(counted: Ladder) -> None:
    before, after = counted["hopper_persistent"], counted["hopper_cluster"]
    assert before.global_sectors_load is not None
    assert after.global_sectors_load == pytest.approx(0.70 * before.global_sectors_load)
    assert before.bulk_load_bytes == (after.bulk_load_bytes or 0) + 192 * 384 * 2  # B, once
    assert after.multicast_bytes == 3 * 2 * 64 * 256 * 2  # three steps of two whole tiles of B


def test_stores_by_tma_touch_half_of_the_sectors(counted: Ladder) -> None:
    whole = 256 * 384 * 2 // 32
    for row in counted:
        staged = KERNELS[row.name].staged > 0
        assert row.global_sectors_store == (whole if staged else 2 * whole), row.name


def test_nothing_conflicts_in_shared_memory(counted: Ladder) -> None:
    assert {row.bank_conflicts for row in counted} == {0}
