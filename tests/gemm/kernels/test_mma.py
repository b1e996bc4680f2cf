"""mma: every tile, random operands, gates, chains, 64-bit indices; what is planned and refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import BF16, FP16, FP32, TF32, DType
from tilewright.gemm.epilogue import AddC
from tilewright.gemm.kernels.mma import FAMILY, TILES
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.reference import expected
from tilewright.gemm.request import Request
from tilewright.gpus import GPUS, Gpu
from tilewright.verify import judge, oracle

H200 = GPUS["h200"]


def request(m: int, n: int, k: int, dtype: DType = BF16, out: DType | None = None) -> Request:
    a, b = Matrix(dtype, m, k, k, 1), Matrix(dtype, k, n, n, 1)
    return Request(a, b, Matrix(out or dtype, m, n, n, 1))


@pytest.mark.parametrize(
    ("tile", "layouts"),
    [
        (0, ("n8", "n8", "n8")),
        (1, ("t8", "t8", "t8")),
        (2, ("n8", "t8", "n4")),
        (3, ("t8", "n8", "n8")),
    ],
)
def test_every_tile_and_majorness(bench: Any, tile: int, layouts: tuple[str, str, str]) -> None:
    """More than one tile along M and N, tails in all three, and no bank conflict."""
    shape = TILES[tile].bm + 9, TILES[tile].bn + 17, 2 * TILES[tile].bk + 5
    given = bench.case(np.random.default_rng(tile), BF16, *shape, layouts=layouts)
    plan = FAMILY.plans(given.request, bench.gpu)[tile]
    assert plan.config.startswith(TILES[tile].name)
    for report in bench.check(given, plan):
        totals = report.totals
        assert totals["shared_wavefronts"] == totals["shared_wavefronts_ideal"]


@pytest.mark.parametrize("seed", range(4))
def test_random_operands(bench: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    m, n, k = (int(extent) for extent in random.integers(1, 100, 3))
    dtype, out = (BF16, FP16)[seed % 2], (BF16, FP16, FP32)[int(random.integers(3))]
    kept = [layout for layout in bench.layouts if "repeat" not in layout]
    layouts = (*random.choice(bench.layouts, 2), random.choice(kept))
    given = bench.case(
        random,
        dtype,
        m,
        n,
        k,
        out=out,
        batch=int(random.integers(1, 4)),
        layouts=layouts,
        leads=tuple(int(lead) for lead in random.choice([0, 0, 1, 2, 4], 3)),
        shared=tuple(bool(both) for both in random.integers(2, size=2)),
    )
    bench.check(given, FAMILY.plans(given.request, bench.gpu)[-1])


@pytest.mark.parametrize("shape", [(1, 1, 1), (130, 1, 33)])
def test_few_rows_columns_or_products(bench: Any, shape: tuple[int, int, int]) -> None:
    given = bench.case(np.random.default_rng(1), FP16, *shape)
    bench.check(given, FAMILY.plans(given.request, bench.gpu)[-1])


def test_elements_in_registers_in_a_large_tile(bench: Any) -> None:
    """Single elements of both operands beside the sums of the largest tile that takes them."""
    given = bench.case(np.random.default_rng(2), BF16, 131, 133, 71)
    plan = FAMILY.plans(given.request, bench.gpu)[0]
    assert plan.config.startswith(TILES[2].name)
    bench.check(given, plan)


def test_a_chain_of_two_parts_for_each_matrix(bench: Any) -> None:
    """The result lies by columns: the product is the transposed one, but not for the parts."""
    given = bench.case(
        np.random.default_rng(3), BF16, 70, 33, 40, batch=2, layouts=("n8", "n8", "t"),
        parts=("bias", "scale"),
    )  # fmt: skip
    plan = FAMILY.plans(given.request, bench.gpu)[-1]
    assert ("SWAPPED", "1") in plan.steps[0].source.defines
    bench.check(given, plan)


@pytest.mark.parametrize(
    ("layouts", "parts"),
    [
        (("n8", "n8", "t"), ("gate", "scale")),
        (("t8", "t8", "n8"), ("bias", "gate")),
    ],
)
def test_a_gate_and_what_it_gates(
    bench: Any, layouts: tuple[str, str, str], parts: tuple[str, ...]
) -> None:
    """A bias before the gate has an element for each of b's columns."""
    given = bench.case(
        np.random.default_rng(4), FP16, 70, 72, 40, out=FP32, batch=2, layouts=layouts,
        parts=parts,
    )  # fmt: skip
    bench.check(given, FAMILY.plans(given.request, bench.gpu)[-1])


def test_c_may_be_the_result_itself(bench: Any) -> None:
    """Lanes that exchange values before they store have read the elements they overwrite."""
    given = bench.case(np.random.default_rng(8), FP16, 33, 40, 24, layouts=("n8", "n8", "n8"))
    out = given.operands["out"]
    out.view[...] = np.random.default_rng(9).standard_normal(out.view.shape)
    request = replace(given.request, epilogue=(AddC(given.request.out),))
    arrays = {name: given.operands[name].view for name in ("a", "b")} | {"beta": 0.5}
    reference = expected(request, {**arrays, "c": out.view.copy()})
    buffers = {name: bench.engine.upload(one.memory) for name, one in given.operands.items()}
    bindings = {name: buffer.address for name, buffer in buffers.items()}
    plan = FAMILY.plans(request, bench.gpu)[-1]
    bench.launch(plan.steps[0], {**bindings, "c": bindings["out"], "beta": 0.5})
    out.memory[:] = bench.engine.download(buffers["out"])
    assert reference.verdict(out.view).message == ""


def test_vectors_do_not_cross_from_the_gate_to_the_other(bench: Any) -> None:
    """b has 2·31 columns and rows of a multiple of 16 bytes, but its second half begins at 31."""
    given = bench.case(
        np.random.default_rng(5), BF16, 20, 31, 24, layouts=("n8", "n8", "n"), parts=("gate",)
    )
    plan = FAMILY.plans(given.request, bench.gpu)[-1]
    assert ("VEC_B", "1") in plan.steps[0].source.defines
    bench.check(given, plan)


def test_indices_have_64_bits(bench_of: Callable[[str], Any]) -> None:
    """Two lines of each operand that are further apart than 32 bits count: they are arrays of their
    own, whose distance in the emulator is far above 2³² elements."""
    bench, random = bench_of("h200"), np.random.default_rng(6)
    lines = {
        name: [random.standard_normal(length).astype(BF16.numpy()) for _ in range(2)]
        for name, length in (("a", 24), ("b", 24), ("out", 2))
    }
    buffers = {name: [bench.engine.upload(line) for line in pair] for name, pair in lines.items()}
    gaps = {name: pair[1].address - pair[0].address for name, pair in buffers.items()}
    assert min(gaps.values()) > 2**34
    a = Matrix(BF16, 2, 24, gaps["a"] // 2, 1)
    b = Matrix(BF16, 24, 2, 1, gaps["b"] // 2)
    out = Matrix(BF16, 2, 2, gaps["out"] // 2, 1)
    plan = FAMILY.plans(Request(a, b, out), bench.gpu)[-1]
    bench.launch(plan.steps[0], {name: pair[0].address for name, pair in buffers.items()})
    got = np.stack([bench.engine.download(line) for line in buffers["out"]])
    reference = oracle(np.stack(lines["a"]), np.stack(lines["b"]).T, BF16)
    assert judge(got, reference).correct


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_every_gpu_has_plans_that_fit_it(gpu: Gpu) -> None:
    for asked in (request(4096, 4096, 4096), request(33, 35, 37, FP16, FP32)):
        assert FAMILY.refusal(asked, gpu) is None
        plans = FAMILY.plans(asked, gpu)
        assert plans
        for plan in plans:
            assert plan.kernel == "mma"
            assert plan.steps[0].arch == gpu.arch
            assert plan.steps[0].shared_bytes <= gpu.shared_bytes_per_block


def test_the_model_expects_what_hgemm_best_does() -> None:
    """4096³ on an H200, where the rung takes 310 µs; small products want small tiles."""
    large = FAMILY.plans(request(4096, 4096, 4096), H200)
    assert large[0].us == min(plan.us or 0 for plan in large)
    assert large[0].us == pytest.approx(310, rel=0.1)
    a100 = FAMILY.plans(request(4096, 4096, 4096), GPUS["a100"])
    assert 440 < min(plan.us or 0 for plan in a100) < 4 * 310  # its rate is 312 TFLOP/s
    small = FAMILY.plans(request(512, 512, 512), H200)
    assert small[-1].us == min(plan.us or 0 for plan in small)


def test_single_elements_are_expected_to_take_longer() -> None:
    aligned, odd = (FAMILY.plans(request(2048, n, 2048), H200) for n in (2048, 2047))
    assert min(plan.us or 0 for plan in odd) > 1.5 * min(plan.us or 0 for plan in aligned)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (request(8, 8, 8, FP32), "multiplies bf16 and fp16, not fp32"),
        (replace(request(8, 8, 8), b=Matrix(FP16, 8, 8, 8, 1)), "a is bf16 and b fp16"),
        (request(8, 8, 8, out=TF32), "stores bf16, fp16, fp32, not tf32"),
        (request(8, 8, 0), "k=0 leaves nothing"),
        (request(2**31, 8, 8), "m=2147483648 is above"),
        (replace(request(2**20, 2**20, 8), batch=2**10), "more tiles than a grid"),
    ],
)
def test_what_it_refuses(asked: Request, said: str) -> None:
    assert said in (FAMILY.refusal(asked, H200) or "")
