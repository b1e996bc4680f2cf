"""The simt rungs: right on every shape they take, on both engines, with the counts they claim."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tilewright.bench.ladder import Ladder, build_rung, climb, rung_launch
from tilewright.dtypes import FP32
from tilewright.engines.base import Engine
from tilewright.ladder.rungs import KERNEL, KERNELS, select
from tilewright.problem import Problem
from tilewright.sass import disassemble
from tilewright.verify import judge, oracle, random_operands

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC's bindings are not installed")

SIMT = [rung.name for rung in select("simt")]
TILED = [name for name in SIMT if KERNELS[name].tile.tm == 8]
ARCHS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_120"]
# Bytes that NVRTC 12.9 and 13.0 spill; 13.5 spills none. The counts of PTX differ too: where a test
# compares instructions, it says by how much in both.
SPILLS = {("sgemm_tiling", "sm_120"): 48}
SHAPES = [
    (128, 128, 64),  # one tile, or the left half of one
    (128, 384, 32),  # one or two steps, fewer than sgemm_best's stages; a tile and a half
    (256, 128, 96),  # three
    (384, 256, 320),  # many
    (128, 2176, 32),  # wide: full panels of the raster and a narrow one, for every tile
    (1152, 128, 32),  # tall
]


@pytest.mark.parametrize("name", SIMT)
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_right(engine: Engine, name: str, m: int, n: int, k: int) -> None:
    check(engine, name, m, n, k)


@pytest.mark.parametrize("name", TILED)
@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_right_at_every_small_number_of_steps(engine: Engine, name: str, steps: int) -> None:
    check(engine, name, 128, 256, steps * KERNELS[name].tile.bk)


def check(engine: Engine, name: str, m: int, n: int, k: int) -> None:
    rung, problem = KERNELS[name], Problem(m, n, k, FP32)
    assert rung.refusal(problem) is None
    a, b = random_operands(m, n, k, FP32, seed=m + n + k)
    out = engine.upload(np.full((m, n), np.nan, np.float32))
    buffers = engine.upload(a), engine.upload(b), out
    report = engine.launch(
        rung_launch(rung, build_rung(rung, problem, engine.arch), problem, buffers)
    )
    verdict = judge(engine.download(out), oracle(a, b, FP32))
    assert verdict.correct, verdict.message
    if report is not None:
        assert report.completed
        assert report.findings == []


@pytest.mark.parametrize("name", SIMT)
@pytest.mark.parametrize("arch", ARCHS)
def test_no_spills(name: str, arch: str) -> None:
    used = build_rung(KERNELS[name], Problem(128, 256, 64, FP32), arch).resources[KERNEL]
    assert used.spill_bytes <= SPILLS.get((name, arch), 0)
    assert used.stack_bytes <= SPILLS.get((name, arch), 0)
    # Of 65,536 registers: two blocks of 256 threads, or of 1,024 where a thread has one element.
    assert used.registers <= {"sgemm_best": 255}.get(name, 128 if name in TILED else 64)


@pytest.fixture(scope="module")
def counted() -> Ladder:
    return climb("simt", m=256, n=512, k=192, dtype="fp32", engine="emulator", gpu="h200")


def by_space(ladder: Ladder, name: str, space: str, start: str) -> tuple[int, int, int]:
    """Requests, wavefronts and sectors of the accesses whose opcode starts so."""
    found = [
        access
        for access in ladder.reports[name].accesses
        if access.space == space and access.opcode.startswith(start)
    ]
    return (
        sum(access.requests for access in found),
        sum(access.wavefronts for access in found),
        sum(access.sectors for access in found),
    )


def test_every_rung_makes_the_same_products(counted: Ladder) -> None:
    for name in SIMT:
        assert counted.reports[name].instructions["fma.rn.f32"] == 256 * 512 * 192 // 32


def test_coalescing(counted: Ladder) -> None:
    """33 sectors for each k of a warp, then 5; stores touch 8 times fewer."""
    naive, coalesced = counted["sgemm_naive"], counted["sgemm_coalesced"]
    warps_k = 256 * 512 * 192 // 32
    assert naive.global_sectors_load == 33 * warps_k
    assert coalesced.global_sectors_load == 5 * warps_k
    assert naive.global_sectors_store == 8 * 256 * 512 * 4 // 32
    assert coalesced.global_sectors_store == 256 * 512 * 4 // 32


def test_tiles_in_shared_memory(counted: Ladder) -> None:
    """20 times fewer sectors; of 128x128 again 4 times fewer, and 7.7 times fewer wavefronts."""
    coalesced, shared, register = (counted[name] for name in SIMT[1:4])
    assert coalesced.global_sectors_load == 20 * (shared.global_sectors_load or 0)
    assert shared.global_sectors_load == 4 * (register.global_sectors_load or 0)
    ratio = (shared.shared_wavefronts or 0) / (register.shared_wavefronts or 1)
    assert ratio == pytest.approx(7.7, abs=0.05)
    assert (shared.bank_conflicts, register.bank_conflicts) == (0, 0)
    loads, _, _ = by_space(counted, "sgemm_shared", "shared", "ld")
    assert loads == 1.25 * 256 * 512 * 192 / 32
    assert (shared.instructions or 0) > 2 * (register.instructions or 0)  # 2.7 times, or 2.1


def test_vectors_are_fewer_instructions_with_conflicts(counted: Ladder) -> None:
    register, tiling = counted["sgemm_register"], counted["sgemm_tiling"]
    assert (tiling.instructions or 0) < 0.8 * (register.instructions or 0)
    assert tiling.global_sectors_store == 2 * (register.global_sectors_store or 0)
    copies, _, _ = by_space(counted, "sgemm_register", "global", "ld")
    assert by_space(counted, "sgemm_tiling", "global", "ld")[0] == copies // 4
    # B: 2 requests of 4 wavefronts for each k of a warp, and as many beyond the ideal.
    assert tiling.bank_conflicts == 2 * 4 * 256 * 512 * 192 // (64 * 32)


def test_the_transpose_stores_by_four_and_the_swizzle_by_one(counted: Ladder) -> None:
    """Stores of A are the scalar ones."""
    for name, wavefronts in (
        ("sgemm_at_tiling", 4),
        ("sgemm_at_bcf_swizzling", 1),
        ("sgemm_at_bcf_swizzling_rw", 1),
        ("sgemm_at_bcf_swizzling_dbf_rw", 1),
    ):
        requests, passes, _ = by_space(counted, name, "shared", "st.shared.f32")
        assert passes == wavefronts * requests > 0
    loads = {by_space(counted, name, "shared", "ld")[:2] for name in SIMT[4:7]}
    assert len(loads) == 1  # tiling, at_tiling, swizzling: the same loads
    tiling, before, after = (counted[name].instructions or 0 for name in SIMT[4:7])
    assert 0.9 * tiling < before < tiling
    assert before < after < 1.05 * before


def test_rw_has_no_conflict_and_fills_its_sectors(counted: Ladder) -> None:
    before, rw = counted["sgemm_at_bcf_swizzling"], counted["sgemm_at_bcf_swizzling_rw"]
    assert (before.bank_conflicts or 0) > 0
    assert rw.bank_conflicts == 0
    assert before.global_sectors_store == 2 * (rw.global_sectors_store or 0)
    assert rw.global_sectors_store == 256 * 512 * 4 // 32
    for name in SIMT[7:]:
        assert counted[name].bank_conflicts == 0


def test_dbf_halves_the_barriers(counted: Ladder) -> None:
    rw, dbf = (counted.reports[name].instructions["bar.sync"] for name in SIMT[7:9])
    assert rw == 2 * dbf


def test_best_has_fewer_wavefronts(counted: Ladder) -> None:
    dbf, best = counted[SIMT[8]], counted["sgemm_best"]
    fewer = (best.shared_wavefronts or 0) / (dbf.shared_wavefronts or 1)
    assert fewer == pytest.approx(0.54, abs=0.005)
    requests, wavefronts, _ = by_space(counted, "sgemm_best", "shared", "ld")
    assert wavefronts == 2 * requests


def test_a_cut_tile_of_best_costs_what_a_whole_one_does() -> None:
    """The columns beyond C are copied and multiplied like others, and not stored."""
    cut, whole = (
        climb(m=128, n=n, k=96, rungs="sgemm_best", dtype="fp32", engine="emulator").rows[0]
        for n in (384, 512)
    )
    assert cut.correct
    assert cut.shared_wavefronts == whole.shared_wavefronts
    assert cut.global_sectors_load == whole.global_sectors_load
    assert cut.global_sectors_store == 128 * 384 * 4 // 32


def test_the_main_loop_of_best_is_fmas() -> None:
    """2,048 of them a K tile, and at most 150 instructions beside them."""
    code = disassemble(
        build_rung(KERNELS["sgemm_best"], Problem(128, 256, 64, FP32), "sm_90").cubin
    )
    if code is None:
        pytest.skip("nvdisasm is not installed")
    opcodes = [instruction.opcode for instruction in code[KERNEL]]
    assert sum(opcode.startswith("FFMA") for opcode in opcodes) == 2048
    first, last = (places[i] for places in [fmas(opcodes)] for i in (0, -1))
    others = [o for o in opcodes[first : last + 1] if not o.startswith("FFMA")]
    assert len(others) <= 150
    assert not any(re.match(r"(LDL|STL)", opcode) for opcode in opcodes)


def fmas(opcodes: list[str]) -> list[int]:
    return [place for place, opcode in enumerate(opcodes) if opcode.startswith("FFMA")]
