"""wgmma: every tile, layout, type and way to store, batches, gates, splits; what is planned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilewright.dtypes import BF16, FP16, FP32, TF32, DType
from tilewright.gemm.kernels.wgmma import CONFIGS, FAMILY
from tilewright.gemm.kernels.wgmma_step import Config
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.plan import Plan
from tilewright.gemm.request import Request
from tilewright.gpus import GPUS, Gpu

H200 = GPUS["h200"]
FEW = replace(H200, sms=4)  # so that blocks have several tiles
SMALL = "64x64x64, 8 stages"
ALONG = ("n8", "t8", "n8")  # a, b and out as nt has them


def request(m: int, n: int, k: int, out: DType = BF16) -> Request:
    a, b = Matrix(BF16, m, k, k, 1), Matrix(BF16, k, n, 1, k)
    return Request(a, b, Matrix(out, m, n, n, 1))


def plan_of(request: Request, config: str, gpu: Gpu = FEW) -> Plan:
    assert FAMILY.refusal(request, gpu) is None
    return {plan.config: plan for plan in FAMILY.plans(request, gpu)}[config]


def fastest(request: Request) -> Plan:
    return min(FAMILY.plans(request, H200), key=lambda plan: plan.us or 0)


def splits(plan: Plan) -> tuple[int, int]:
    """How many, and the steps of each."""
    fields = dict(plan.steps[0].params[0].values)
    return int(str(fields["splits"])), int(str(fields["split_steps"]))


# --- plans ------------------------------------------------------------------------------


def test_every_tile_is_planned_and_fits() -> None:
    plans = FAMILY.plans(request(4096, 4096, 640), H200)
    assert {plan.config for plan in plans} == {str(config) for config in CONFIGS}
    for plan in plans:
        (step,) = plan.steps
        assert plan.us
        assert plan.workspace_bytes == 0
        assert step.shared_bytes <= H200.shared_bytes_per_block
        assert step.grid[0] <= H200.sms
        assert step.grid[0] % step.cluster[0] == 0


def test_no_block_of_a_cluster_is_idle() -> None:
    """Of a row of tiles there are no two below each other, of a column none beside each other."""
    for given, idle in ((request(64, 768, 64), "2x1"), (request(768, 64, 64), "1x2")):
        assert not [plan for plan in FAMILY.plans(given, H200) if f"clusters {idle}" in plan.config]


def test_what_it_takes() -> None:
    given = request(9, 10, 16)
    assert FAMILY.refusal(replace(given, out=replace(given.out, row_stride=-3)), H200) is None
    for change, why in (
        ({"b": replace(given.b, dtype=FP16)}, "two bf16 or two fp16 matrices, not bf16 by fp16"),
        ({"out": replace(given.out, dtype=TF32)}, "stores bf16, fp16 or fp32, not tf32"),
        ({"a": replace(given.a, row_stride=17)}, "a: its rows are 34 bytes apart"),
        ({"b": replace(given.b, col_stride=-8)}, "b: its columns are -16 bytes apart"),
        ({"b": replace(given.b, row_stride=2)}, "b: neither its rows nor its columns are"),
        ({"a": replace(given.a, alignment=8)}, "a: its address is a multiple of 8 bytes"),
        ({"a": replace(given.a, rows=2**31)}, "takes m from 1 to"),
        ({"a": replace(given.a, batch_stride=7), "batch": 2}, "a: its matrices are 14 bytes apart"),
    ):
        refusal = FAMILY.refusal(replace(given, **change), H200)
        assert refusal is not None
        assert why in refusal
    alone = replace(given, a=replace(given.a, batch_stride=7))
    assert FAMILY.refusal(alone, H200) is None  # there is but one matrix
    assert "this GPU is sm_80" in str(FAMILY.refusal(given, GPUS["a100"]))


def test_as_few_blocks_as_end_no_later() -> None:
    given = request(64 * 100, 256 * 2, 64)  # 200 tiles, two each
    for config in ("64x256x64, 5 stages", "64x256x64, 5 stages, clusters 2x1"):
        assert plan_of(given, config, H200).steps[0].grid == (100, 1, 1)


def test_the_model_prefers_what_measurements_do() -> None:
    """hopper_best's tile and clusters at 4096³; small tiles where there are few."""
    assert fastest(request(4096, 4096, 4096)).config == "128x256x64, 4 stages, clusters 2x1"
    assert fastest(request(64, 8192, 4096)).config.startswith("64x")


def test_k_is_split_where_tiles_leave_the_gpu_idle() -> None:
    small = request(64, 64, 4096)
    split = [plan for plan in FAMILY.plans(small, H200) if len(plan.steps) > 1]
    assert fastest(small) in split
    assert all(plan.workspace_bytes == splits(plan)[0] * 64 * 64 * 4 for plan in split)
    for given in (replace(small, batch_invariant=True), request(4096, 4096, 4096)):
        assert all(len(plan.steps) == 1 for plan in FAMILY.plans(given, H200))


@pytest.mark.parametrize("k", [64 * 5, 64 * 17 + 8, 64 * 33])
def test_no_split_is_empty(k: int) -> None:
    for plan in FAMILY.plans(request(8, 8, k), H200):
        count, each = splits(plan)
        assert (count - 1) * each < -(-k // 64) <= count * each


def test_a_gates_halves_are_whole_panels(bench_of: Any) -> None:
    given = bench_of("h200").case(np.random.default_rng(0), BF16, 64, 64, 64, parts=["gate"])
    configs = [plan.config for plan in FAMILY.plans(given.request, H200) if len(plan.steps) == 1]
    assert {config.split("x")[1] for config in configs} == {"128", "256"}


# --- results ----------------------------------------------------------------------------


def check(bench: Any, shape: tuple[int, int, int], config: str, **how: Any) -> None:
    """Blocks have several tiles. In the emulator no staged tile waits for a bank."""
    dtype = how.pop("dtype", BF16)
    given = bench.case(np.random.default_rng(7), dtype, *shape, **{"layouts": ALONG} | how)
    for report in bench.check(given, plan_of(given.request, config)):
        staged = [row for row in report.accesses if row.opcode.startswith(("stm", "st.shared"))]
        assert all(row.wavefronts == row.wavefronts_ideal for row in staged)


@pytest.mark.parametrize("shape", [(136, 200, 72), (1, 8, 8), (1, 1, 1), (70, 300, 600)])
def test_edges(bench: Any, shape: tuple[int, int, int]) -> None:
    check(bench, shape, SMALL)


@pytest.mark.parametrize("shared", [(False, False), (True, False), (False, True)])
def test_batches(bench: Any, shared: tuple[bool, bool]) -> None:
    check(bench, (65, 72, 136), SMALL, batch=3, shared=shared)


@pytest.mark.parametrize(
    ("layouts", "dtype", "out"),
    [
        (("t8", "n8", "n8"), FP16, FP16),
        (("n8", "n8", "n8"), BF16, FP32),
        (("t8", "t8", "t8"), FP16, BF16),  # the transposed product
        (("n8", "t8", "n"), BF16, BF16),  # single elements of odd rows
        (("n8", "t8", "n4"), BF16, BF16),  # pairs
        (("t8", "n8", "t"), FP16, FP32),
        (("n8", "t8", "flipped"), BF16, FP32),
    ],
)
def test_layouts_and_types(
    bench: Any, layouts: tuple[str, str, str], dtype: DType, out: DType
) -> None:
    columns = 75 if layouts[2] in ("n", "flipped") else 76
    check(bench, (67, columns, 72), SMALL, layouts=layouts, dtype=dtype, out=out, batch=2)


@pytest.mark.parametrize(
    ("config", "shape", "how"),
    [
        # K is too short for a tile to be stored beside its products, then long enough. The layout
        # and the chain take the most registers.
        ("128x256x64, 4 stages, clusters 2x1", (200, 300, 136), {"parts": ["bias", "scale"]}),
        ("256x128x64, 4 stages, clusters 1x2", (300, 264, 328), {"parts": ["bias", "scale"]}),
        ("128x192x64, 4 stages", (150, 400, 264), {"layouts": ALONG}),  # an odd number of panels
        ("128x128x64, 6 stages, clusters 1x2, in turns", (400, 400, 72), {}),
        ("64x256x64, 4 stages, clusters 2x1, in turns", (330, 300, 136), {"out": FP32}),
    ],
)
def test_large_tiles(
    bench: Any, config: str, shape: tuple[int, int, int], how: dict[str, Any]
) -> None:
    check(bench, shape, config, **{"layouts": ("t8", "n8", "n8")} | how)


@pytest.mark.parametrize("layouts", [ALONG, ("n8", "t8", "t")])
def test_chains(bench: Any, layouts: tuple[str, str, str]) -> None:
    check(bench, (70, 75, 72), SMALL, layouts=layouts, parts=["bias", "scale"], batch=2)


@pytest.mark.parametrize(
    ("layouts", "config"),
    [
        (ALONG, "64x128x64, 8 stages"),
        (("n8", "n8", "n8"), "64x128x64, 8 stages, clusters 2x1"),
        (("n8", "t8", "t"), "128x128x64, 6 stages, clusters 2x1"),
    ],
)
def test_gates(bench: Any, layouts: tuple[str, str, str], config: str) -> None:
    """The boxes of the gate's last columns reach into those of what it gates."""
    check(bench, (136, 104, 72), config, layouts=layouts, parts=["gate", "scale"])


@pytest.mark.parametrize(
    ("shape", "how"),
    [((40, 27, 600), {"batch": 2, "parts": ["bias"]}), ((40, 24, 600), {"parts": ["gate"]})],
)
def test_splits_add_up(bench: Any, shape: tuple[int, int, int], how: dict[str, Any]) -> None:
    check(bench, shape, f"{SMALL}, 2 splits", **how)


def test_configs_are_named_apart() -> None:
    assert len({str(config) for config in CONFIGS}) == len(CONFIGS)
    assert str(Config(64, 64, 1, splits=3)) == f"{SMALL}, 3 splits"
