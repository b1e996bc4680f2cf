"""simt: every tile, random operands, gates and chains; what is planned and refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import BF16, FP16, FP32
from tilewright.gemm.kernels.simt import FAMILY, TILES
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.request import Request
from tilewright.gpus import GPUS, Gpu

H200 = GPUS["h200"]


@pytest.mark.parametrize(
    ("tile", "layouts"), [(0, ("t8", "n8", "n8")), (1, ("n", "t8", "n4")), (2, ("t8", "n8", "n"))]
)
def test_every_tile_and_majorness(bench: Any, tile: int, layouts: tuple[str, str, str]) -> None:
    """More than one tile along M or N, tails in all three, and no bank conflict of a thread."""
    shape = TILES[tile].bm - 3, TILES[tile].bn + 17, 3 * TILES[tile].bk + 5
    given = bench.case(np.random.default_rng(tile), FP32, *shape, layouts=layouts)
    plan = FAMILY.plans(given.request, bench.gpu)[tile]
    assert plan.config.startswith(TILES[tile].name)
    for report in bench.check(given, plan):
        assert report.totals["bank_conflicts"] == 0


@pytest.mark.parametrize("seed", range(3))
def test_random_operands(bench: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    m, n, k = (int(extent) for extent in random.integers(1, 90, 3))
    kept = [layout for layout in bench.layouts if "repeat" not in layout]
    given = bench.case(
        random,
        FP32,
        m,
        n,
        k,
        out=(FP32, BF16, FP16)[seed % 3],
        batch=int(random.integers(1, 4)),
        layouts=(*random.choice(bench.layouts, 2), random.choice(kept)),
        leads=tuple(int(lead) for lead in random.choice([0, 0, 1, 2, 4], 3)),
        shared=tuple(bool(both) for both in random.integers(2, size=2)),
    )
    bench.check(given, FAMILY.plans(given.request, bench.gpu)[-1])


def test_a_gate_and_what_it_gates(bench: Any) -> None:
    given = bench.case(np.random.default_rng(4), FP32, 70, 36, 20, batch=2, parts=("gate", "scale"))
    bench.check(given, FAMILY.plans(given.request, bench.gpu)[-1])


def test_products_are_those_of_fp32(bench_of: Callable[[str], Any]) -> None:
    """One product, whose factors differ from tf32's in their last bits."""
    bench = bench_of("rtx3090")
    given = bench.case(np.random.default_rng(7), FP32, 1, 1, 1)
    a, b = (given.operands[name].view for name in ("a", "b"))
    a[...] = b[...] = 1 + 2**-20
    bench.check(given, FAMILY.plans(given.request, bench.gpu)[-1])


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_every_gpu_has_plans_that_fit_it(gpu: Gpu) -> None:
    matrix = Matrix(FP32, 512, 512, 512, 1)
    for plan in FAMILY.plans(Request(matrix, matrix, matrix), gpu):
        assert plan.kernel == "simt"
        assert plan.steps[0].arch == gpu.arch
        assert plan.steps[0].shared_bytes <= gpu.shared_bytes_per_block


def test_the_model_expects_what_sgemm_best_does() -> None:
    """4096³ on an H200, where the rung takes 2,767 µs."""
    matrix = Matrix(FP32, 4096, 4096, 4096, 1)
    first, *others = (plan.us or 0 for plan in FAMILY.plans(Request(matrix, matrix, matrix), H200))
    assert first == pytest.approx(2767, rel=0.1)
    assert min(others) > first


def test_it_refuses_other_types() -> None:
    matrix = Matrix(BF16, 8, 8, 8, 1)
    said = FAMILY.refusal(Request(matrix, matrix, matrix), H200)
    assert said == "multiplies fp32, not bf16"
