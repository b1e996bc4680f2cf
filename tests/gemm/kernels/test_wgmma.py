"""The product op's Hopper kernel: its family's plans are legal, and right in the emulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.artifact import Artifact, Source
from tilewright.build import build
from tilewright.dtypes import DTYPES, FP32
from tilewright.engines.emulator import EmulatorEngine
from tilewright.gemm.kernels.wgmma import CONFIGS, FAMILY, Wgmma
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.part import Part, Wide
from tilewright.gemm.plan import Plan
from tilewright.gemm.request import Request
from tilewright.gemm.step import WORKSPACE, Address, Step, Struct, Value
from tilewright.gpus import GPUS, Gpu

H200 = GPUS["h200"]
FEW = replace(H200, sms=4)  # so that blocks have several tiles
HERE = str(Path(__file__).parent)
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Tilt:
    """x · factor + slope · (3·row − col)."""

    factor: float = 0.5
    slope: float = 0.125
    cpp: str = "test::Tilt"
    header: str = "wgmma_parts.cuh"
    columns: int = 1

    @property
    def operands(self) -> Mapping[str, Matrix]:
        return {}

    @property
    def fields(self) -> tuple[tuple[str, str, Value], ...]:
        return ("factor", "f4", self.factor), ("slope", "f4", self.slope)

    def numpy(self, x: Wide, operands: Mapping[str, Array]) -> Wide:
        return x * self.factor + self.slope * (3 * _rows(x) - _cols(x))


@dataclass(frozen=True)
class Table:
    """x + table."""

    table: Matrix
    cpp: str = "test::Table"
    header: str = "wgmma_parts.cuh"
    columns: int = 1

    @property
    def operands(self) -> Mapping[str, Matrix]:
        return {"table": self.table}

    @property
    def fields(self) -> tuple[tuple[str, str, Value], ...]:
        at = self.table
        strides = (("row", at.row_stride), ("col", at.col_stride), ("matrix", at.batch_stride))
        return ("at", "u8", Address("table")), *((name, "i8", stride) for name, stride in strides)

    def numpy(self, x: Wide, operands: Mapping[str, Array]) -> Wide:
        return x + operands["table"]


@dataclass(frozen=True)
class Gate:
    """max(gate, 0) · up + row − col."""

    cpp: str = "test::Gate"
    header: str = "wgmma_parts.cuh"
    columns: int = 2

    @property
    def operands(self) -> Mapping[str, Matrix]:
        return {}

    @property
    def fields(self) -> tuple[tuple[str, str, Value], ...]:
        return (("unused", "u8", 0),)

    def numpy(self, x: Wide, operands: Mapping[str, Array]) -> Wide:
        half = x.shape[-1] // 2
        result: Wide = np.maximum(x[..., :half], 0) * x[..., half:]
        return result + _rows(result) - _cols(result)


def _rows(x: Wide) -> Wide:
    return np.arange(x.shape[-2], dtype=np.float64)[:, None]


def _cols(x: Wide) -> Wide:
    return np.arange(x.shape[-1], dtype=np.float64)


@dataclass(frozen=True)
class Case:
    """A request by its extents and types, and how its operands lie: rows (n) or columns (t)
    contiguous, in the order a, b, out, the lines as far apart as 16 bytes ask for, or, of out,
    `gap` elements further than they are long. `shared` operands are the same for the batch.
    """

    m: int
    n: int
    k: int
    layout: str = "ntn"
    dtype: str = "bf16"
    out: str = "bf16"
    batch: int = 1
    shared: str = ""
    gap: int | None = None
    epilogue: Callable[[Case], tuple[Part, ...]] = lambda case: ()

    def __str__(self) -> str:
        words = [f"{self.m}x{self.n}x{self.k}", self.layout, self.dtype, self.out]
        words += [f"batch {self.batch} {self.shared}".strip()] * (self.batch > 1)
        words += [f"gap {self.gap}"] * (self.gap is not None)
        return " ".join(words)

    @property
    def request(self) -> Request:
        epilogue = self.epilogue(self)
        width = max((part.columns for part in epilogue), default=1)
        return Request(
            self.matrix("a", self.m, self.k, self.layout[0], self.dtype),
            self.matrix("b", self.k, width * self.n, self.layout[1], self.dtype),
            self.matrix("out", self.m, self.n, self.layout[2], self.out, self.gap),
            self.batch,
            epilogue,
        )

    def matrix(
        self, name: str, rows: int, cols: int, order: str, dtype: str, gap: int | None = None
    ) -> Matrix:
        lines, length = (rows, cols) if order == "n" else (cols, rows)
        pitch = -(-length // 8) * 8 if gap is None else length + gap
        strides = (pitch, 1) if order == "n" else (1, pitch)
        between = 0 if name in self.shared.split() or self.batch == 1 else lines * pitch
        return Matrix(DTYPES[dtype], rows, cols, *strides, between)


def memory(matrix: Matrix, batch: int, rng: np.random.Generator | None) -> Array:
    """What holds the matrices, line after line: normal numbers, or NaN to be overwritten."""
    lines, pitch = matrix.rows, matrix.row_stride
    if matrix.col_stride != 1:
        lines, pitch = matrix.cols, matrix.col_stride
    count = batch if matrix.batch_stride else 1
    shape = (count, lines, pitch)
    if rng is None:
        return np.full(shape, np.nan, matrix.dtype.numpy())
    return rng.standard_normal(shape, np.float32).astype(matrix.dtype.numpy())


def seen(held: Array, matrix: Matrix) -> Array:
    """The matrices [batch, rows, cols] in memory."""
    if matrix.col_stride == 1:
        return held[:, :, : matrix.cols]
    return held[:, :, : matrix.rows].transpose(0, 2, 1)


def compiled(step: Step) -> Artifact:
    """Nothing spills and no wgmma waits for another, whatever a test compiles."""
    artifact = build(replace(step.source, include_path=(HERE,)), step.arch)
    used = artifact.resources["gemm"]
    assert (used.spill_bytes, used.stack_bytes) == (0, 0)
    assert used.registers * step.block[0] <= 65536
    assert artifact.serialized == ()
    return artifact


def check(case: Case, plan: Plan) -> None:
    """Runs the plan in the emulator and holds the result to float64; nothing else is written."""
    request, rng, engine = case.request, np.random.default_rng(case.m), EmulatorEngine(FEW)
    matrices = {"a": request.a, "b": request.b}
    for part in request.epilogue:
        matrices |= part.operands
    arrays = {name: memory(each, case.batch, rng) for name, each in matrices.items()}
    buffers = {name: engine.upload(array) for name, array in arrays.items()}
    buffers["out"] = engine.upload(memory(request.out, case.batch, None))
    if plan.workspace_bytes:
        buffers[WORKSPACE] = engine.empty((plan.workspace_bytes // 4,), FP32.numpy())
    bindings = {name: buffer.address for name, buffer in buffers.items()}
    for step in plan.steps:
        report = engine.launch(step.launch(compiled(step), bindings))
        assert report.completed
        assert report.findings == []
        staged = [
            row for row in report.accesses if row.opcode.startswith(("stmatrix", "st.shared"))
        ]
        assert all(row.wavefronts == row.wavefronts_ideal for row in staged)
    held = engine.download(buffers["out"])
    wide = {name: seen(array, matrices[name]).astype(np.float64) for name, array in arrays.items()}
    exact = wide["a"] @ wide["b"]
    bound = (4 * np.sqrt(case.k) + case.k / 8) * 2.0**-24 * (np.abs(wide["a"]) @ np.abs(wide["b"]))
    for part in request.epilogue:
        if part.columns == 2:  # neither factor grows the other's error by more
            bound = (np.abs(exact) + bound).max() * 2 * bound[..., : case.n] + 2e-5
        exact = part.numpy(exact, wide)
    dtype = request.out.dtype
    bound = bound + dtype.unit_roundoff * np.abs(exact) + dtype.tiny + 2.0**-22 * np.abs(exact)
    got = seen(held, request.out).astype(np.float64)
    assert got.shape == exact.shape
    assert (np.abs(got - exact) <= bound).all()
    seen(held, request.out)[...] = 0
    length = request.out.cols if request.out.col_stride == 1 else request.out.rows
    assert np.isnan(held[:, :, length:].astype(np.float32)).all()


def plan_of(case: Case, config: str, family: Wgmma = FAMILY, gpu: Gpu = FEW) -> Plan:
    assert family.refusal(case.request, gpu) is None
    plans = {plan.config: plan for plan in family.plans(case.request, gpu)}
    return plans[config]


SMALL = "64x64x64, 8 stages"


# --- plans ------------------------------------------------------------------------------


def test_every_tile_is_planned_and_fits() -> None:
    plans = FAMILY.plans(Case(512, 768, 640).request, H200)
    assert {plan.config for plan in plans} == {str(config) for config in CONFIGS}
    assert all(plan.us and plan.workspace_bytes == 0 for plan in plans)
    assert all(plan.steps[0].shared_bytes <= H200.shared_bytes_per_block for plan in plans)
    assert all(plan.steps[0].grid[0] % plan.steps[0].cluster[0] == 0 for plan in plans)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"gap": 0}, None),  # of out: any
        ({"layout": "ttt"}, None),
        ({"dtype": "fp32"}, "multiplies two bf16 or two fp16 matrices, not fp32 by fp32"),
        ({"out": "tf32"}, "stores bf16, fp16 or fp32, not tf32"),
    ],
)
def test_what_it_takes(change: dict[str, Any], why: str | None) -> None:
    assert FAMILY.refusal(replace(Case(9, 10, 11), **change).request, H200) == why


def test_what_tma_does_not_reach_is_refused_by_name() -> None:
    request = Case(9, 10, 16).request
    rows = replace(request.a, row_stride=17)
    assert FAMILY.refusal(replace(request, a=rows), H200) == (
        "a: its rows are 34 bytes apart, which TMA does not reach"
    )
    columns = replace(request.b, col_stride=-24)
    assert FAMILY.refusal(replace(request, b=columns), H200) == (
        "b: its columns are -48 bytes apart, which TMA does not reach"
    )
    strided = replace(request.b, row_stride=2)
    assert FAMILY.refusal(replace(request, b=strided), H200) == (
        "b: neither its rows nor its columns are contiguous"
    )
    assert FAMILY.refusal(request, GPUS["a100"]) == (
        "uses wgmma and TMA of an H100 or H200, and this GPU is sm_80"
    )
    alone = replace(request, a=replace(request.a, batch_stride=7))
    assert FAMILY.refusal(alone, H200) is None  # there is one matrix
    assert "matrices are 14 bytes apart" in str(FAMILY.refusal(replace(alone, batch=2), H200))


def test_a_gates_halves_are_whole_panels() -> None:
    plans = FAMILY.plans(Case(64, 64, 64, epilogue=lambda case: (Gate(),)).request, H200)
    assert {plan.config.split("x")[1] for plan in plans} == {"128", "256"}


def test_as_few_blocks_as_end_no_later() -> None:
    case = Case(64 * 100, 256 * 2, 64)
    grid = plan_of(case, "64x256x64, 5 stages", gpu=H200).steps[0].grid
    assert grid == (100, 1, 1)  # 200 tiles, two each
    grid = plan_of(case, "64x256x64, 5 stages, clusters 2x1", gpu=H200).steps[0].grid
    assert grid == (100, 1, 1)


def test_the_model_prefers_what_measurements_do() -> None:
    """hopper_best's tile and clusters at 4096³; small tiles where there are few."""
    plans = FAMILY.plans(Case(4096, 4096, 4096).request, H200)
    best = min(plans, key=lambda plan: plan.us or 0)
    assert best.config == "128x256x64, 4 stages, clusters 2x1"
    plans = FAMILY.plans(Case(64, 4096, 4096).request, H200)
    best = min(plans, key=lambda plan: plan.us or 0)
    assert best.config.startswith("64x64x64")


# --- machine code -----------------------------------------------------------------------


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("config", ["128x256x64, 4 stages", "256x128x64, 4 stages"])
def test_the_largest_tiles_leave_room_for_an_epilogue(config: str) -> None:
    """In the layout that takes the most registers; others are compiled by the tests below."""
    case = Case(520, 520, 64, "tnn", epilogue=lambda case: (Tilt(), *table("n")(case)))
    compiled(plan_of(case, config).steps[0])


# --- results ----------------------------------------------------------------------------


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    "case",
    [
        Case(136, 200, 72),
        Case(1, 8, 8),
        Case(1, 1, 1),
        Case(70, 300, 600),  # more steps than stages
        Case(13, 72, 136, batch=3),
        Case(65, 72, 136, batch=3, shared="a"),
        Case(65, 72, 136, batch=2, shared="b"),
        Case(65, 72, 136, "tnn", "fp16", "fp16"),
        Case(65, 72, 136, "nnn", "bf16", "fp32"),
        Case(65, 72, 136, "ttt", "fp16", "bf16"),
        Case(65, 75, 72, "ntn", "bf16", "bf16", gap=0),  # odd rows of out
        Case(65, 76, 72, "ntn", "bf16", "fp32", gap=2),  # pairs
        Case(65, 75, 72, "nnt", "bf16", "fp32", batch=2, gap=1),
    ],
    ids=str,
)
def test_small_tiles(case: Case) -> None:
    check(case, plan_of(case, SMALL))


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("case", "config"),
    [
        (Case(200, 300, 328), "128x256x64, 4 stages, clusters 2x1"),  # K too short to store beside
        (Case(300, 264, 136, "nnn"), "256x128x64, 4 stages, clusters 1x2"),
        (Case(150, 400, 264), "128x192x64, 4 stages"),  # an odd number of panels
        (Case(400, 400, 72, "tnn"), "128x128x64, 6 stages, clusters 1x2, in turns"),
        (Case(330, 300, 136, out="fp32"), "64x256x64, 4 stages, clusters 2x1, in turns"),
    ],
    ids=str,
)
def test_large_tiles(case: Case, config: str) -> None:
    check(case, plan_of(case, config))


def table(order: str) -> Callable[[Case], tuple[Part, ...]]:
    return lambda case: (Table(case.matrix("table", case.m, case.n, order, "fp32")),)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    "case",
    [
        Case(70, 75, 72, gap=5, epilogue=lambda case: (Tilt(), *table("t")(case))),
        Case(70, 75, 72, "ntt", epilogue=table("n")),  # the transposed product
        Case(65, 72, 72, batch=3, epilogue=table("n")),
    ],
    ids=["chain", "transposed", "batch"],
)
def test_epilogues(case: Case) -> None:
    check(case, plan_of(case, SMALL))


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("layout", "config"),
    [
        ("ntn", "64x128x64, 8 stages"),
        ("nnn", "64x128x64, 8 stages, clusters 2x1"),
        ("ntt", "128x128x64, 6 stages, clusters 2x1"),
    ],
)
def test_gates(layout: str, config: str) -> None:
    """The boxes of the gate's last columns reach into those of what it gates."""
    case = Case(136, 104, 72, layout, epilogue=lambda case: (Gate(),))
    check(case, plan_of(case, config))


# --- splits -----------------------------------------------------------------------------

_ADD = """
extern "C" __global__ void gemm(const float* from, float* out, int count, int splits) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
  for (int split = 0; split < splits; ++split) sum += from[split * count + i];
  out[i] = sum;
}
"""


def add(request: Request, splits: int, source: Address, arch: str) -> tuple[Step, ...]:
    """Stands for kernels/reduce.py: fp32 results without gaps."""
    count = request.batch * request.m * request.n
    params: list[tuple[str, str, Value]] = [
        ("from", "u8", source),
        ("out", "u8", Address("out")),
        ("count", "i4", count),
        ("splits", "i4", splits),
    ]
    structs = tuple(Struct("X", ((name, kind),), ((name, value),)) for name, kind, value in params)
    grid = (-(-count // 256), 1, 1)
    return (Step(Source("add.cu", _ADD), arch, "gemm", grid, (256, 1, 1), structs),)


SPLITTING = Wgmma(add)


def test_k_is_split_where_tiles_leave_the_gpu_idle() -> None:
    small = Case(64, 64, 4096, out="fp32").request
    split = [plan for plan in SPLITTING.plans(small, H200) if len(plan.steps) == 2]
    assert {int(plan.config.split()[-2]) for plan in split} >= {16}
    assert all(plan.workspace_bytes == int(plan.config.split()[-2]) * 64 * 64 * 4 for plan in split)
    assert min(SPLITTING.plans(small, H200), key=lambda plan: plan.us or 0) in split
    invariant = replace(small, batch_invariant=True)
    assert all(len(plan.steps) == 1 for plan in SPLITTING.plans(invariant, H200))
    large = Case(4096, 4096, 4096).request
    assert all(len(plan.steps) == 1 for plan in SPLITTING.plans(large, H200))


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    "case", [Case(40, 24, 600, out="fp32", gap=0, batch=2), Case(40, 27, 600, out="fp32", gap=0)]
)
def test_splits_add_up(case: Case) -> None:
    plans = [plan for plan in SPLITTING.plans(case.request, FEW) if len(plan.steps) == 2]
    (plan,) = [plan for plan in plans if plan.config.startswith(f"{SMALL}, 2 splits")]
    check(case, plan)


def test_no_split_is_empty() -> None:
    for k in (64 * 5, 64 * 17 + 8, 64 * 33):
        for plan in SPLITTING.plans(Case(8, 8, k, out="fp32").request, H200):
            fields = dict(plan.steps[0].params[0].values)
            splits, each = int(str(fields["splits"])), int(str(fields["split_steps"]))
            assert (splits - 1) * each < -(-k // 64) <= splits * each
