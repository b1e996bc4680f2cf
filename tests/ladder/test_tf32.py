"""The tf32 rungs: right on every shape they take, on both engines, with the counts they claim."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.bench.ladder import Ladder, build_rung, climb, rung_launch
from tilewright.dtypes import TF32
from tilewright.engines.base import Engine
from tilewright.ladder.rungs import KERNEL, KERNELS, select_kernels
from tilewright.problem import Problem
from tilewright.sass import disassemble
from tilewright.verify import judge, oracle, random_operands

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC's bindings are not installed")

NAMES = [rung.name for rung in select_kernels("tf32")]
ARCHS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_120"]
SHAPES = [
    (128, 384, 64),  # half a tile of the last rung
    (256, 128, 32),  # one or two steps
    (384, 256, 96),  # three steps; a tile and a half
    (256, 384, 320),  # many
    (128, 2176, 32),  # wide: full panels of the raster and a narrow one
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_right(engine: Engine, name: str, m: int, n: int, k: int) -> None:
    a, b = random_operands(m, n, k, TF32, seed=m + n + k)
    verdict = judge(product(engine, name, a, b), oracle(a, b, TF32))
    assert verdict.correct, verdict.message


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_right_at_every_small_number_of_steps(engine: Engine, name: str, steps: int) -> None:
    a, b = random_operands(128, 256, steps * KERNELS[name].tile.bk, TF32, seed=steps)
    verdict = judge(product(engine, name, a, b), oracle(a, b, TF32))
    assert verdict.correct, verdict.message


def product(
    engine: Engine, name: str, a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    rung, problem = KERNELS[name], Problem(a.shape[0], b.shape[1], a.shape[1], TF32)
    assert rung.refusal(problem) is None
    out = engine.upload(np.full((problem.m, problem.n), np.nan, np.float32))
    buffers = engine.upload(a), engine.upload(b), out
    report = engine.launch(
        rung_launch(rung, build_rung(rung, problem, engine.arch), problem, buffers)
    )
    if report is not None:
        assert report.completed
        assert report.findings == []
    return engine.download(out)


def nearest_tf32(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Rounded to 11 bits of precision, ties to even."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    rounded: npt.NDArray[np.float64] = np.ldexp(np.rint(mantissa * 2**11) / 2**11, exponent)
    return rounded


@pytest.mark.parametrize("name", NAMES)
def test_operands_are_rounded_to_nearest(engine: Engine, name: str) -> None:
    """Of the rounded operands, the result is the product in fp32: 40 times closer than tf32's."""
    a, b = random_operands(256, 384, 64, TF32, seed=5)
    c = product(engine, name, a, b).astype(np.float64)
    left, right = nearest_tf32(a), nearest_tf32(b)
    slack = 64 * 2.0**-22 * (np.abs(left) @ np.abs(right))
    assert (np.abs(c - left @ right) <= slack).all()
    cut = (x.view("u4") & np.uint32(0xFFFFE000) for x in (a, b))
    dropped = np.matmul(*(x.view("f4").astype(np.float64) for x in cut))
    assert not (np.abs(dropped - left @ right) <= slack).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bits", [0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000, 0x7F800001])
def test_not_a_number_stays_one(engine: Engine, name: str, bits: int) -> None:
    """Also where rounding would carry into the sign: 0x7fffffff is what CUDA's arithmetic makes."""
    a, b = random_operands(128, 256, 32, TF32, seed=1)
    a.view(np.uint32)[5, 7] = b.view(np.uint32)[9, 11] = bits
    wrong = np.isnan(product(engine, name, a, b))
    assert wrong[5, :].all()
    assert wrong[:, 11].all()
    assert wrong.sum() == 256 + 128 - 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("arch", ARCHS)
def test_no_spills(name: str, arch: str) -> None:
    used = build_rung(KERNELS[name], Problem(128, 256, 64, TF32), arch).resources[KERNEL]
    assert used.spill_bytes == 0
    assert used.stack_bytes == 0
    # Of 65,536 registers: two blocks of 256 threads, or one.
    assert used.registers <= (255 if name == "sgemm_tf32_best" else 128)


@pytest.fixture(scope="module")
def counted() -> Ladder:
    return climb("tf32", m=256, n=512, k=192, dtype="tf32", engine="emulator", gpu="h200")


def by_opcode(ladder: Ladder, name: str, start: str) -> tuple[int, int, int]:
    """Requests, wavefronts and those without conflicts of shared memory's accesses."""
    found = [a for a in ladder.reports[name].accesses if a.opcode.startswith(start)]
    return (
        sum(access.requests for access in found),
        sum(access.wavefronts for access in found),
        sum(access.wavefronts_ideal for access in found),
    )


def test_conflicts_of_the_transposition(counted: Ladder) -> None:
    """Stores by 32 and ldmatrix by 4; swizzled by 8 and 1; B as it lies none at all."""
    for name, stores, loads in zip(NAMES[:3], (32, 8, 8), (4, 1, 1), strict=True):
        requests, wavefronts, _ = by_opcode(counted, name, "st.shared")
        assert wavefronts == stores * requests > 0
        _, wavefronts, ideal = by_opcode(counted, name, "ldmatrix")
        assert wavefronts == loads * ideal > 0
    for name in NAMES[3:]:
        assert counted[name].bank_conflicts == 0
        assert by_opcode(counted, name, "st.shared")[0] == 0


def test_b_as_it_lies_takes_eight_loads_for_two(counted: Ladder) -> None:
    turned, plain = NAMES[2:4]
    of_a = 2 * by_opcode(counted, turned, "ldmatrix")[0] // 3  # four of six
    of_b = by_opcode(counted, turned, "ldmatrix")[0] - of_a
    assert by_opcode(counted, plain, "ldmatrix")[0] == of_a
    assert by_opcode(counted, plain, "ld.shared")[0] == 4 * of_b


def test_dbf_halves_the_barriers(counted: Ladder) -> None:
    barriers = [counted.reports[name].instructions["bar.sync"] for name in NAMES]
    assert barriers[1] == 2 * barriers[2]
    assert barriers[3] == 2 * barriers[4]


def test_best_reads_two_thirds_by_half_of_the_instructions(counted: Ladder) -> None:
    """But for one fetch more a tile, behind the last step."""
    dbf, best = NAMES[4:]
    fetches = 192 // 8
    for start, share in (("ldmatrix", 1 / 2), ("ld.shared", 1 / 2)):
        before, after = by_opcode(counted, dbf, start)[0], by_opcode(counted, best, start)[0]
        assert after / before == pytest.approx(share * (fetches + 1) / fetches)
    waves = [sum(by_opcode(counted, name, s)[1] for s in ("ldm", "ld.s")) for name in (dbf, best)]
    assert waves[1] / waves[0] == pytest.approx(2 / 3 * (fetches + 1) / fetches)
    for name in NAMES:  # C in whole sectors
        assert counted[name].global_sectors_store == 256 * 512 * 4 // 32


def test_best_moves_nothing_between_loads_and_products() -> None:
    """On sm_90 a fragment is loaded, rounded by one instruction, and multiplied."""
    rung = KERNELS["sgemm_tf32_best"]
    code = disassemble(build_rung(rung, Problem(256, 256, 64, TF32), "sm_90").cubin)
    if code is None:
        pytest.skip("nvdisasm is not installed")
    opcodes = [instruction.opcode for instruction in code[KERNEL]]
    products = [place for place, opcode in enumerate(opcodes) if opcode.startswith("HMMA")]
    assert len(products) == 128
    loop = opcodes[products[0] : products[-1] + 1]
    assert sum(opcode.startswith("F2FP") for opcode in loop) <= 128
    assert sum(opcode.startswith(("MOV", "IMAD.MOV")) for opcode in loop) <= 24
