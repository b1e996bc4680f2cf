"""Suites on the fake GPU: the user's own kernels beside the peers, and what goes wrong there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.bench.contest import Conditions
from tilewright.bench.record import Measurement
from tilewright.bench.suite_run import Plan, Row, SuiteRun, measure_suites
from tilewright.bench.suites import parse_shapes
from tilewright.bench.user_function import FunctionKernel
from tilewright.bench.user_kernel import CudaKernel, parse
from tilewright.dtypes import BF16
from tilewright.errors import EngineError, InputError
from tilewright.ladder.rungs import select

QUICK = Conditions(rounds=3, round_us=500.0, lead_in_us=100.0)
SHAPE = "32x48x16"

# bf16 as the words that it is, so that no CUDA header is needed.
MINE = """
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
  for (int k = 0; k < K; ++k) sum += wide(A[row * K + k]) * wide(B[k * N + col]);
  C[row * N + col] = narrow(sum);
}
"""
UNWRITTEN = MINE.replace("if (row >=", "if (row == 3 && col == 5 || row >=")
NAN = MINE.replace("narrow(sum)", "row == 31 && col == 47 ? 0x7fc0 : narrow(sum)")


def mine(folder: Path, text: str = MINE, options: str = "", name: str = "my_mine.cu") -> CudaKernel:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return parse(f"{path}:mine{options}")


def plan(
    *kernels: CudaKernel | FunctionKernel, shapes: Sequence[str] = (SHAPE,), **more: Any
) -> Plan:
    named = tuple(("shape", shape) for shape in parse_shapes(shapes))
    made = Plan(named, BF16, (), kernels, QUICK, roofs=False)
    return replace(made, **more)


def measured(engine: Any, what: Plan) -> tuple[SuiteRun, list[Measurement]]:
    lines: list[Measurement] = []
    run = measure_suites(engine, what, lambda word, done, total: None, lines.extend)
    return run, lines


def rows(run: SuiteRun) -> dict[str, Row]:
    named = {row.name: row for row in run.rows}
    assert len(named) == len(run.rows)
    return named


def test_a_right_kernel_beside_torch(gpu: Any, tmp_path: Path) -> None:
    kernel = mine(tmp_path)
    run, lines = measured(gpu, plan(kernel))
    found = rows(run)
    assert list(found) == ["torch", "mine"]
    row = found["mine"]
    assert (row.status, row.reason, row.correct, row.rival) == ("ok", None, True, "torch")
    assert row.us == pytest.approx(60)
    assert row.ratio == pytest.approx(40 / 60)
    assert row.tflops == pytest.approx(2 * 32 * 48 * 16 / 60 / 1e6)
    assert row.version == (
        "mine: grid 3×2, block 16×16, tile 16×16 of C, arguments A, B, C, M, N, K"
    )
    assert run.notes == ("quack is left out: not installed.", row.version)
    assert row.repro == (
        f"tilewright bench --shape {SHAPE}:nn --dtype bf16 --kernel {kernel.word} --rounds 3"
        " --no-roofs"
    )
    assert [line.name for line in lines] == ["torch", "mine"]
    assert lines[1].source_hash == kernel.source_hash
    assert (lines[1].rival, lines[1].correct) == ("torch", True)
    assert lines[1].rival_us == pytest.approx(40)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (UNWRITTEN, r"^1 of 1536 checked elements are wrong, first C\[3, 5\] = nan"),
        (NAN, r"^1 of 1536 checked elements are wrong, first C\[31, 47\] = nan"),
    ],
)
def test_a_wrong_kernel_is_not_timed(gpu: Any, tmp_path: Path, text: str, wrong: str) -> None:
    assert text != MINE
    run, lines = measured(gpu, plan(mine(tmp_path, text)))
    found = rows(run)
    row = found["mine"]
    assert (row.status, row.correct, row.us, row.ratio, row.method) == (
        "wrong", False, None, None, None,
    )  # fmt: skip
    assert row.rel_error is not None
    assert np.isnan(row.rel_error)
    assert re.search(wrong, str(row.reason))
    assert (found["torch"].status, run.correct) == ("ok", False)
    assert [line.name for line in lines] == ["torch"]


def test_right_at_first_and_stale_after(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kernel writes nothing any more once it has been timed; the others go on."""
    real, ran = gpu.spend, []

    def spend(name: str, compute: Callable[[], object]) -> None:
        ran.append(name)
        stale = name == "mine" and ran.count("mine") > 2  # after the check before timing
        real(name, (lambda: None) if stale else compute)

    monkeypatch.setattr(gpu, "spend", spend)
    run, lines = measured(gpu, plan(mine(tmp_path)))
    found = rows(run)
    assert ran.count("mine") > 4
    assert (found["torch"].status, found["torch"].ratio) == ("ok", 1)
    assert (found["mine"].status, found["mine"].us, found["mine"].ratio) == ("wrong", None, None)
    assert "1536 of 1536 checked elements are wrong" in str(found["mine"].reason)
    assert [(line.name, line.correct) for line in lines] == [("torch", True), ("mine", False)]


def test_the_last_input_set_is_checked_too(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, ran = gpu.spend, []

    def spend(name: str, compute: Callable[[], object]) -> None:
        ran.append(name)
        real(name, (lambda: None) if ran.count("mine") == 2 else compute)

    monkeypatch.setattr(gpu, "spend", spend)
    run, _ = measured(gpu, plan(mine(tmp_path)))
    assert rows(run)["mine"].status == "wrong"
    assert ran.count("mine") == 2


def test_nothing_is_written_any_more_after_timing(gpu: Any, tmp_path: Path) -> None:
    gpu.broken_after = 2000.0  # the checks before it take 200 µs, the timing 100 ms
    run, lines = measured(gpu, plan(mine(tmp_path)))
    assert {(row.name, row.status, row.us) for row in run.rows} == {
        ("torch", "wrong", None),
        ("mine", "wrong", None),
    }
    assert [line.correct for line in lines] == [False, False]


def test_one_name_twice(gpu: Any, tmp_path: Path) -> None:
    first = mine(tmp_path)
    second = mine(tmp_path, options=",block=32x4", name="other_mine.cu")
    third = mine(tmp_path, UNWRITTEN, name="third_mine.cu")
    run, lines = measured(gpu, plan(first, second, third))
    found = rows(run)
    names = [kernel.word.split(",")[0] for kernel in (first, second, third)]
    assert list(found) == ["torch", *names]
    assert "block 16×16" in str(found[names[0]].version)
    assert "block 32×4" in str(found[names[1]].version)
    assert [row.status for row in run.rows] == ["ok", "ok", "ok", "wrong"]
    assert [line.name for line in lines] == ["torch", *names[:2]]
    assert not run.never_ran(names)
    twice = plan(first, mine(tmp_path, options=",block=32x4")).labels
    assert list(twice.values()) == [names[0], f"{names[0]} #2"]


def test_roofs_and_their_lines(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.bench import suite_timed

    run, lines = measured(gpu, plan(mine(tmp_path)))
    assert {(row.roof, row.roof_us, row.roof_share) for row in run.rows} == {(None, None, None)}
    usual: Any = suite_timed.measure_roofs  # type: ignore[attr-defined]
    asked: list[Any] = []
    kept = (replace(lines[0], name="roof: empty node"), replace(lines[0], name="roof: copy 1 MiB"))

    def with_lines(*of: Any) -> Any:
        asked.append(of)
        return replace(usual(*of), lines=kept)

    monkeypatch.setattr(suite_timed, "measure_roofs", with_lines)
    run, lines = measured(gpu, plan(mine(tmp_path), shapes=(SHAPE, "16x16x16"), roofs=True))
    assert [line.name for line in lines] == [
        "roof: empty node", "roof: copy 1 MiB", "torch", "mine", "torch", "mine",
    ]  # fmt: skip
    ((engine, dtype, library),) = asked
    assert (engine, dtype, library.name) == (gpu, BF16, "torch")
    assert run.rows[0].roof == "launch"
    assert run.rows[0].roof_us is not None
    assert run.rows[1].roof_share == pytest.approx(run.rows[0].roof_us / 60)


class Failing:
    """A peer that does not take any problem."""

    def __init__(self, name: str, error: Exception) -> None:
        self.name, self.error = name, error

    def bind(self, *of: Any) -> Any:
        raise self.error


@pytest.mark.parametrize("error", [EngineError("no tile fits."), InputError("takes no bf16.")])
def test_a_peer_that_cannot_is_a_skipped_row(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    from tilewright.bench import suite_timed

    usual: Any = suite_timed.found_peers  # type: ignore[attr-defined]

    def found(*of: Any) -> Any:
        peers, notes = usual(*of)
        return [Failing("lt_first", error), *peers], notes

    monkeypatch.setattr(suite_timed, "found_peers", found)
    rungs = tuple(select(None, ("hgemm_bcf",)))
    run, lines = measured(gpu, plan(mine(tmp_path), rungs=rungs, shapes=("128x256x64",)))
    found_rows = rows(run)
    assert list(found_rows) == ["lt_first", "torch", "hgemm_bcf", "mine"]
    skipped = found_rows["lt_first"]
    assert (skipped.status, skipped.reason, skipped.us) == ("skipped", str(error), None)
    assert [(row.status, row.rival) for row in run.rows[1:]] == [("ok", "torch")] * 3
    assert f"1 × skipped: {error}" in run.notes
    assert len(lines) == 3


def test_a_kernel_that_takes_no_such_problem_never_ran(gpu: Any, tmp_path: Path) -> None:
    other = mine(tmp_path, options=",layout=nt")
    run, _ = measured(gpu, plan(other))
    assert rows(run)["mine"].reason == "mine takes layout=nt, not nn."
    assert run.never_ran([other.label])
    run, _ = measured(gpu, plan(other, shapes=(SHAPE, f"{SHAPE}:nt")))
    assert not run.never_ran([other.label])
    assert [row.status for row in run.rows if row.name == "mine"] == ["skipped", "wrong"]
    assert not run.never_ran([])


def test_a_twin_that_ran_is_another_kernel(gpu: Any, tmp_path: Path) -> None:
    kernels = mine(tmp_path), mine(tmp_path, options=",layout=nt")
    what = plan(*kernels)
    run, _ = measured(gpu, what)
    name = kernels[0].word
    assert [(row.name, row.status) for row in run.rows] == [
        (f"{name} #2", "skipped"), ("torch", "ok"), (name, "ok"),
    ]  # fmt: skip
    assert run.never_ran(what.labels.values())
    assert not run.never_ran([name])


def test_a_wrong_kernel_did_run(gpu: Any, tmp_path: Path) -> None:
    wrong = mine(tmp_path, UNWRITTEN)
    run, _ = measured(gpu, plan(wrong))
    assert not run.never_ran([wrong.label])


def test_a_shape_too_large_for_the_gpu_leaves_the_others(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "free_bytes", lambda: 1_000_000)
    kernel = mine(tmp_path)
    run, _ = measured(gpu, plan(kernel, shapes=("4096x4096x16", SHAPE)))
    assert [(row.name, row.status) for row in run.rows] == [
        ("all", "skipped"), ("torch", "ok"), ("mine", "ok"),
    ]  # fmt: skip
    assert run.rows[0].reason is not None
    assert not run.never_ran([kernel.label])


def test_a_function_of_the_user_s_is_a_contestant(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It enters as a peer, under its word, and is no rival."""
    from tilewright.bench import suite_timed

    usual: Any = suite_timed.found_peers  # type: ignore[attr-defined]
    ((torch,), _) = usual(gpu, BF16)
    torch_like = type(torch)(gpu, "mod:gemm")
    monkeypatch.setattr(FunctionKernel, "peer", lambda self, engine: torch_like)
    kernel = FunctionKernel("mod:gemm", max, False, "mod 1.0")
    run, lines = measured(gpu, plan(kernel))
    found = rows(run)
    assert list(found) == ["torch", "mod:gemm"]
    row = found["mod:gemm"]
    assert row.rival == "torch"
    assert row.us == pytest.approx(60)
    assert list(row.ratios or ()) == ["torch"]
    assert row.ratio == pytest.approx(40 / 60)
    assert lines[1].name == "mod:gemm"
