"""Suites in the emulator: the user's kernels are counted, or it is said why they are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.bench.contest import Conditions
from tilewright.bench.suite_run import Plan, SuiteRun, measure_suites
from tilewright.bench.suites import parse_shapes
from tilewright.bench.user_function import FunctionKernel
from tilewright.bench.user_kernel import CudaKernel, parse
from tilewright.dtypes import BF16
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import InputError
from tilewright.gpus import GPUS
from tilewright.ladder.rungs import select

M, N, K = 48, 80, 32
SHAPE = f"{M}x{N}x{K}"

# bf16 as the words that it is, so that no CUDA header is needed. B_AT: n or t.
MINE = """
#ifndef B_AT
#define B_AT k * N + col
#endif
__device__ float wide(unsigned short x) { return __uint_as_float(unsigned(x) << 16); }
__device__ unsigned short narrow(float x) {
  const unsigned u = __float_as_uint(x);
  return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
extern "C" __global__ void mine(const unsigned short* A, const unsigned short* B,
                                unsigned short* C, int M, int N, int K) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= M || col >= N) return;
  float sum = 0;
  for (int k = 0; k < K; ++k) sum += wide(A[row * K + k]) * wide(B[B_AT]);
  C[row * N + col] = narrow(sum);
}
"""
UNWRITTEN = MINE.replace("if (row >=", "if (row == 3 && col == 5 || row >=")
# One thread reads far behind A, and what it finds there changes nothing.
BEYOND = MINE.replace(
    "  C[row",
    "  if (row == M - 1 && col == 0 && A[M * K + 100000] == 12345) sum = 0;\n  C[row",
)


def mine(folder: Path, text: str = MINE, options: str = "") -> CudaKernel:
    path = folder / "my_mine.cu"
    path.write_text(text, encoding="utf-8")
    return parse(f"{path}:mine{options}")


def counted(*kernels: CudaKernel | FunctionKernel, shape: str = SHAPE, **more: Any) -> SuiteRun:
    shapes = tuple(("shape", one) for one in parse_shapes(shape.split()))
    what = replace(Plan(shapes, BF16, (), kernels), **more)
    lines: list[Any] = []
    engine = EmulatorEngine(GPUS["h200"])
    run = measure_suites(engine, what, lambda word, done, total: None, lines.extend)
    assert lines == []
    return run


def test_a_right_kernel(compiler: str, tmp_path: Path) -> None:
    kernel = mine(tmp_path)
    run = counted(kernel)
    (row,) = run.rows
    assert (row.name, row.status, row.reason, row.correct) == ("mine", "ok", None, True)
    assert (row.engine, row.us, row.rival, row.roof) == ("emulator", None, None, None)
    assert row.rel_error is not None
    assert 0 < row.rel_error < 1e-2
    assert (row.shared_wavefronts, row.bank_conflicts) == (0, 0)
    # A warp is two rows of 16 columns. In each step of k it reads two words of A, a row of B
    # (32 bytes, one sector), and in the end writes two rows of C of one sector each.
    warps = M * N // 32
    assert row.global_sectors == warps * (K * (2 + 1) + 2)
    assert row.version == (
        "mine: grid 5×3, block 16×16, tile 16×16 of C, arguments A, B, C, M, N, K"
    )
    assert run.notes == (
        row.version,
        "Without a GPU there are no times: small shapes are counted in the emulator.",
    )
    assert run.correct
    assert not run.never_ran([kernel.label])


def test_the_inputs_and_the_seed_are_those_asked_for(compiler: str, tmp_path: Path) -> None:
    kernel = mine(tmp_path)
    ways = (Conditions(), Conditions(seed=1), Conditions(inputs="uniform"))
    errors = {counted(kernel, conditions=how).rows[0].rel_error for how in ways}
    assert len(errors) == 3
    (zeros,) = counted(kernel, conditions=Conditions(inputs="zeros")).rows
    assert (zeros.rel_error, zeros.inputs, zeros.status) == (0, "zeros", "ok")


def test_the_inputs_of_rungs_too(compiler: str) -> None:
    rungs = tuple(select(None, ("hgemm_bcf",)))
    (zeros,) = counted(shape="128x128x64", rungs=rungs, conditions=Conditions(inputs="zeros")).rows
    assert (zeros.inputs, zeros.status, zeros.rel_error) == ("zeros", "ok", 0)


def test_an_element_that_is_not_written(compiler: str, tmp_path: Path) -> None:
    kernel = mine(tmp_path, UNWRITTEN)
    run = counted(kernel)
    (row,) = run.rows
    assert (row.status, row.correct) == ("wrong", False)
    assert str(row.reason).startswith("1 of 3840 checked elements are wrong, first C[3, 5] = nan")
    assert row.global_sectors is not None
    assert not run.correct
    assert not run.never_ran([kernel.label])


def test_a_finding_makes_a_right_result_wrong(compiler: str, tmp_path: Path) -> None:
    assert BEYOND != MINE
    (row,) = counted(mine(tmp_path, BEYOND)).rows
    assert (row.status, row.correct) == ("wrong", False)
    assert row.rel_error is not None
    assert row.rel_error < 1e-2
    line = BEYOND.splitlines().index(next(x for x in BEYOND.splitlines() if "12345" in x)) + 1
    assert str(row.reason).startswith(f"my_mine.cu:{line}: ")


def test_layouts(compiler: str, tmp_path: Path) -> None:
    kernel = mine(tmp_path, options=",layout=nt,B_AT=col*K+k")
    run = counted(kernel, shape=f"{SHAPE}:nn {SHAPE}:nt {SHAPE}:tt")
    assert [(row.layout, row.status) for row in run.rows] == [
        ("nn", "skipped"), ("nt", "ok"), ("tt", "skipped"),
    ]  # fmt: skip
    assert run.rows[0].reason == "mine takes layout=nt, not nn."
    assert run.rows[0].global_sectors is None
    assert "1 × skipped: mine takes layout=nt, not tt." in run.notes
    assert not run.never_ran([kernel.label])
    assert counted(kernel).never_ran([kernel.label])


def test_too_large_to_be_counted(tmp_path: Path) -> None:
    kernel = mine(tmp_path)
    run = counted(kernel, shape="1024x2048x1024", rungs=tuple(select(None, ("hgemm_bcf",))))
    said = "above 3e+09 FLOP, too large to be counted in reasonable time; it needs a GPU."
    assert [(row.name, row.status, row.reason) for row in run.rows] == [
        ("hgemm_bcf", "skipped", said),
        ("mine", "skipped", said),
    ]
    assert f"2 × skipped: {said}" in run.notes
    assert run.never_ran([kernel.label])
    assert run.correct


def test_a_function_needs_a_gpu() -> None:
    def never(*of: Any) -> None:
        raise AssertionError

    kernel = FunctionKernel("mod:gemm", never, False, "mod 1.0")
    run = counted(kernel)
    (row,) = run.rows
    assert (row.name, row.status) == ("mod:gemm", "skipped")
    assert row.reason == "mod:gemm is a Python function of tensors on a GPU; there is none here."
    assert run.never_ran([kernel.label])


def test_what_a_launch_needs_is_asked_for(compiler: str, tmp_path: Path) -> None:
    text = MINE.replace("threadIdx.y", "0").replace("blockDim.y", "1")
    (row,) = counted(mine(tmp_path, text)).rows
    assert (row.status, row.name) == ("skipped", "mine")
    assert str(row.reason) == (
        "mine reads threadIdx.x alone and has no __launch_bounds__; give its threads, as block=256."
    )


def test_each_kernel_has_its_row_after_the_rungs(compiler: str, tmp_path: Path) -> None:
    rungs = tuple(select(None, ("hgemm_bcf",)))
    kernel = mine(tmp_path)
    run = counted(kernel, rungs=rungs, shape="128x128x64 16x16x16")
    assert [(row.name, row.status) for row in run.rows] == [
        ("hgemm_bcf", "ok"), ("mine", "ok"), ("hgemm_bcf", "skipped"), ("mine", "ok"),
    ]  # fmt: skip
    assert run.rows[0].bank_conflicts == 0
    assert run.rows[1].repro == (
        "tilewright bench --shape 128x128x64:nn --dtype bf16 --rung hgemm_bcf "
        f"--kernel {kernel.word} --engine emulator"
    )


@pytest.mark.parametrize("how", [Conditions(inputs="ones"), Conditions(seed=-1)])
def test_conditions_that_are_none(compiler: str, tmp_path: Path, how: Conditions) -> None:
    with pytest.raises(InputError, match=r"inputs='ones' is not known|seed=-1 must be 0 or more"):
        counted(mine(tmp_path), conditions=how)
