"""The hgemm rungs: right on every shape they take, on both engines, with the counts they claim."""

from __future__ import annotations

import pytest

from tilewright.bench.ladder import Ladder, build_rung, climb, rung_launch
from tilewright.dtypes import DTYPES
from tilewright.engines.base import Engine
from tilewright.ladder.rungs import KERNEL, RUNGS, select
from tilewright.problem import Problem
from tilewright.verify import judge, oracle, random_operands

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC's bindings are not installed")

HGEMM = [rung.name for rung in select("hgemm")]
ARCHS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_120"]
SHAPES = [
    (128, 128, 32),  # one tile, one step
    (256, 128, 64),  # two steps: each buffer once
    (128, 384, 96),  # three: the first buffer again
    (256, 384, 544),  # many
    (128, 1408, 64),  # wide: a full panel of the raster and a narrow one
    (1152, 128, 32),  # tall
    (640, 1280, 160),  # neither a multiple of the raster's width
]


@pytest.mark.parametrize("name", HGEMM)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_right(engine: Engine, name: str, dtype: str, m: int, n: int, k: int) -> None:
    problem = Problem(m, n, k, DTYPES[dtype])
    rung, kind = RUNGS[name], problem.dtype
    a, b = random_operands(m, n, k, kind, seed=m + n + k)
    out = engine.empty((m, n), kind.numpy())
    buffers = engine.upload(a), engine.upload(b), out
    report = engine.launch(
        rung_launch(rung, build_rung(rung, problem, engine.arch), problem, buffers)
    )
    verdict = judge(engine.download(out), oracle(a, b, kind))
    assert verdict.correct, verdict.message
    if report is not None:
        assert report.completed
        assert report.findings == []


@pytest.mark.parametrize("name", HGEMM)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_no_spills(name: str, arch: str, dtype: str) -> None:
    used = build_rung(RUNGS[name], Problem(128, 256, 64, DTYPES[dtype]), arch).resources[KERNEL]
    assert used.spill_bytes == 0
    assert used.stack_bytes == 0
    assert 64 <= used.registers <= 128  # two blocks of 256 threads a multiprocessor


@pytest.fixture(scope="module")
def counted() -> Ladder:
    return climb(m=256, n=384, k=192, engine="emulator", gpu="h200")


def degrees(ladder: Ladder, name: str) -> dict[str, float]:
    """How many passes each kind of shared access takes for one."""
    found: dict[str, float] = {}
    for access in ladder.reports[name].accesses:
        if access.space == "shared":
            shape = "A" if ".x4" in access.opcode else "B" if ".trans" in access.opcode else "C"
            found[shape] = max(access.wavefronts / access.wavefronts_ideal, found.get(shape, 0))
    return found


def test_naive_conflicts_on_a_and_b(counted: Ladder) -> None:
    assert degrees(counted, "hgemm_naive") == {"A": 4.0, "B": 8.0}


@pytest.mark.parametrize("name", HGEMM[1:])
def test_the_others_have_no_conflicts(counted: Ladder, name: str) -> None:
    assert set(degrees(counted, name).values()) == {1.0}
    row = next(row for row in counted if row.name == name)
    assert row.bank_conflicts == 0


def test_counts_at_256_cubed_are_those_of_an_h200() -> None:
    """ldmatrix of the article's kernels there, read with Nsight Compute: 65,536 against 12,288."""
    naive, bcf = climb(m=256, n=256, k=256, engine="emulator", rungs=HGEMM[:2])
    assert (naive.shared_wavefronts_ldmatrix, naive.shared_wavefronts_ideal_ldmatrix) == (
        65_536,
        12_288,
    )
    assert bcf.shared_wavefronts_ldmatrix == 12_288


def test_rows_of_64_bytes_cost_cp_async_twice(counted: Ladder) -> None:
    """A's rows are 64 bytes: 8 wavefronts a request with and without the swizzle; B's take 4."""
    for name in HGEMM:
        costs = {
            access.wavefronts / access.requests
            for access in counted.reports[name].accesses
            if access.space == "global>shared"
        }
        assert costs == {4.0, 8.0}


def test_rw_halves_the_store_sectors(counted: Ladder) -> None:
    *earlier, rw = [row.global_sectors_store for row in counted]
    assert rw is not None
    assert set(earlier) == {2 * rw}
    assert rw == 256 * 384 * 2 // 32


def test_dbf_halves_the_barriers(counted: Ladder) -> None:
    barriers = [counted.reports[name].instructions["bar.sync"] for name in HGEMM[:3]]
    assert barriers == [barriers[0], barriers[0], barriers[0] // 2]


def test_registers_and_residency(counted: Ladder) -> None:
    for row in counted:
        assert row.blocks_per_sm == 2
        assert row.intensity == 64.0
        assert row.shared_bytes == RUNGS[row.name].shared_bytes(DTYPES["bf16"])
