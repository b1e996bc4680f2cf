"""The hgemm rungs: right on every shape they take, on both engines, with the counts they claim."""

from __future__ import annotations

import pytest

from tilewright.bench.ladder import Ladder, build_rung, climb, rung_launch
from tilewright.dtypes import DTYPES
from tilewright.emulator.report import Report
from tilewright.engines.base import Engine
from tilewright.ladder.rungs import KERNEL, KERNELS, KernelRung, select
from tilewright.problem import Problem
from tilewright.verify import judge, oracle, random_operands

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC's bindings are not installed")

HGEMM = [rung.name for rung in select("hgemm")]
ARCHS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_120"]
SHAPES = [  # m, n and K steps: 1, 2, one less than the slots, as many, one more, and many
    (128, 128, 1),  # one tile; half a one of hgemm_best
    (256, 128, 2),
    (128, 384, 3),
    (384, 128, 4),
    (256, 384, 17),
    (128, 1408, 2),  # wide: a full panel of the raster and a narrow one
    (128, 2304, 1),  # and of one that is 16 tiles wide
    (1152, 128, 1),  # tall
    (640, 1280, 5),  # neither a multiple of the raster's width
]


@pytest.mark.parametrize("name", HGEMM)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize(("m", "n", "steps"), SHAPES)
def test_right(engine: Engine, name: str, dtype: str, m: int, n: int, steps: int) -> None:
    problem = Problem(m, n, steps * KERNELS[name].tile.bk, DTYPES[dtype])
    check(engine, KERNELS[name], problem, engine.sms)


@pytest.mark.parametrize(("m", "n", "steps"), [(640, 1280, 1), (384, 640, 2), (640, 384, 5)])
@pytest.mark.parametrize("sms", [1, 4, 7])
def test_right_where_blocks_go_on_to_other_tiles(
    engine: Engine, m: int, n: int, steps: int, sms: int
) -> None:
    """Half tiles before and after whole ones, in rings that are longer than a tile's steps."""
    rung = KERNELS["hgemm_best"]
    check(engine, rung, Problem(m, n, steps * rung.tile.bk, DTYPES["bf16"]), sms)


def check(engine: Engine, rung: KernelRung, problem: Problem, sms: int) -> None:
    """The rung's product is right, and the emulator, where it ran, found nothing."""
    m, n, k, kind = problem.m, problem.n, problem.k, problem.dtype
    a, b = random_operands(m, n, k, kind, seed=m + n + k)
    out = engine.empty((m, n), kind.numpy())
    buffers = engine.upload(a), engine.upload(b), out
    artifact = build_rung(rung, problem, engine.arch)
    report = engine.launch(rung_launch(rung, artifact, problem, buffers, sms))
    verdict = judge(engine.download(out), oracle(a, b, kind))
    assert verdict.correct, verdict.message
    if report is not None:
        assert report.completed
        assert report.findings == []


@pytest.mark.parametrize("name", HGEMM)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_no_spills(name: str, arch: str, dtype: str) -> None:
    rung = KERNELS[name]
    used = build_rung(rung, Problem(128, 256, 64, DTYPES[dtype]), arch).resources[KERNEL]
    assert used.spill_bytes == 0
    assert used.stack_bytes == 0
    assert used.registers >= rung.tile.bm * rung.tile.bn // rung.threads  # its sums
    resident = 1 if name == "hgemm_best" else 2  # blocks a multiprocessor
    assert used.registers * rung.threads * resident <= 65536


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


def copying(report: Report) -> set[float]:
    """Wavefronts a request of each cp.async."""
    copies = [access for access in report.accesses if access.space == "global>shared"]
    return {access.wavefronts / access.requests for access in copies}


def test_rows_of_64_bytes_cost_cp_async_twice(counted: Ladder) -> None:
    """Rows of A take 8 wavefronts a request with and without the swizzle, of 128 bytes 4 as B."""
    for name in HGEMM:
        costs = {4.0} if KERNELS[name].tile.bk == 64 else {4.0, 8.0}
        assert copying(counted.reports[name]) == costs


def test_a_swizzle_of_the_global_side_costs_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The article's own try: lanes write A as it lies and read chunks that are swapped."""
    rung = KERNELS["hgemm_k_stages"]
    swizzled = "tile::swizzle_a(a_row, a_col)"
    text = rung.text.replace("a_row * BK + tile::swizzle_a(a_row, a_col)", "a_row * BK + a_col")
    text = text.replace("* g.K + a_col]", f"* g.K + {swizzled}]")
    assert (text.count(swizzled), rung.text.count(swizzled)) == (1, 1)
    monkeypatch.setitem(vars(rung), "text", text)
    ladder = climb(m=128, n=256, k=160, engine="emulator", gpu="h200", rungs=rung.name)
    assert ladder[rung.name].correct
    assert ladder[rung.name].bank_conflicts == 0
    assert copying(ladder.reports[rung.name]) == {4.0, 8.0}


def test_wavefronts_of_a_step(counted: Ladder) -> None:
    """Shared memory's share of 128x128x64 of the product, as the headers tell it."""
    deeper = climb(m=256, n=384, k=384, engine="emulator", gpu="h200")
    found = {}
    for one, two in zip(counted, deeper, strict=True):
        assert one.shared_wavefronts is not None
        assert two.shared_wavefronts is not None
        found[one.name] = (two.shared_wavefronts - one.shared_wavefronts) / (6 * 3)
    expected = dict.fromkeys(HGEMM, 1152) | {
        "hgemm_naive": 4480, "hgemm_bk64": 1024, "hgemm_w64": 768, "hgemm_best": 704
    }  # fmt: skip
    assert found == expected
    for name, wavefronts in list(expected.items())[6:]:
        assert f"{wavefronts} wavefronts" in KERNELS[name].text


def test_the_plain_order_moves_nothing_inside_a_block(counted: Ladder) -> None:
    rw, raster = counted["hgemm_bcf_dbf_rw"], counted["hgemm_raster"]
    for field in ("shared_wavefronts", "global_sectors_load", "global_sectors_store"):
        assert getattr(rw, field) == getattr(raster, field)


def test_w64_reads_two_thirds_of_the_fragments(counted: Ladder) -> None:
    bk64, w64 = counted["hgemm_bk64"], counted["hgemm_w64"]
    assert bk64.shared_wavefronts_ldmatrix is not None
    assert w64.shared_wavefronts_ldmatrix == bk64.shared_wavefronts_ldmatrix * 2 // 3


def test_best_copies_a_quarter_less(counted: Ladder) -> None:
    w64, best = counted["hgemm_w64"], counted["hgemm_best"]
    assert w64.shared_wavefronts_cp_async is not None
    assert w64.global_sectors_load is not None
    assert best.shared_wavefronts_cp_async == w64.shared_wavefronts_cp_async * 3 // 4
    assert best.global_sectors_load == w64.global_sectors_load * 3 // 4


@pytest.mark.parametrize("name", HGEMM[6:])
def test_from_bk64_on_all_shared_accesses_are_ideal(counted: Ladder, name: str) -> None:
    assert counted[name].shared_wavefronts == counted[name].shared_wavefronts_ideal


def test_rw_halves_the_store_sectors(counted: Ladder) -> None:
    stored = [row.global_sectors_store for row in counted]
    least = 256 * 384 * 2 // 32
    assert stored == [2 * least] * 3 + [least] * (len(HGEMM) - 3)


def test_dbf_halves_the_barriers(counted: Ladder) -> None:
    barriers = [counted.reports[name].instructions["bar.sync"] for name in HGEMM[:3]]
    assert barriers == [barriers[0], barriers[0], barriers[0] // 2]


def test_registers_and_residency(counted: Ladder) -> None:
    for row in counted:
        best = row.name == "hgemm_best"
        assert row.blocks_per_sm == (1 if best else 2)
        assert row.intensity == pytest.approx(256 / 3 if best else 64)
        assert row.shared_bytes == KERNELS[row.name].shared_bytes(DTYPES["bf16"])
