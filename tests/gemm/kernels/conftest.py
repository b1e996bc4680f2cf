"""Operands that lie in memory in every way, parts of an epilogue, and plans run in the emulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.build import build
from tilewright.dtypes import FP32, DType
from tilewright.emulator.report import Report
from tilewright.engines.base import Engine
from tilewright.engines.choose import open_engine
from tilewright.engines.emulator import EmulatorEngine
from tilewright.engines.probe import gpus_found
from tilewright.gemm.epilogue import Bias, Gate, Scale
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.part import Part
from tilewright.gemm.plan import Plan
from tilewright.gemm.reference import expected
from tilewright.gemm.request import Request
from tilewright.gemm.step import WORKSPACE, Bindings, Step
from tilewright.gpus import DEFAULT_GPU, GPUS, Gpu, gpu_reported

_MOST_ALIGNED = 16

# Ways to lie in memory: the element strides of a [rows, cols] matrix, and where its first begins.
LAYOUTS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "n": lambda rows, cols: (cols, 1),
    "t": lambda rows, cols: (1, rows),
    "n8": lambda rows, cols: (-(-cols // 8) * 8 + 8, 1),
    "t8": lambda rows, cols: (1, -(-rows // 8) * 8 + 8),
    "n4": lambda rows, cols: (-(-cols // 8) * 8 + 4, 1),
    "t2": lambda rows, cols: (1, -(-rows // 8) * 8 + 2),
    "spread": lambda rows, cols: (3 * cols + 1, 3),
    "flipped": lambda rows, cols: (-cols - 1, -1),
    "up": lambda rows, cols: (-(-(-cols // 8) * 8), 1),
    "rows repeat": lambda rows, cols: (0, 1),
    "cols repeat": lambda rows, cols: (1, 0),
}


@dataclass(frozen=True)
class Laid:
    """A batch of matrices in memory: `view` looks at `memory`, which ends where they end."""

    matrix: Matrix
    memory: npt.NDArray[Any]
    start: int  # of element (0, 0), in elements
    view: npt.NDArray[Any]  # [batch, rows, cols]


def laid(
    dtype: DType,
    shape: tuple[int, int, int],
    layout: str = "n",
    lead: int = 0,
    shared: bool = False,
) -> Laid:
    """Memory for a batch [batch, rows, cols], `lead` elements behind an address of 256 · n bytes.

    `shared`: all matrices of the batch are the same one.
    """
    batch, rows, cols = shape
    strides = LAYOUTS[layout](rows, cols)
    spans = [(extent - 1) * stride for extent, stride in zip((rows, cols), strides, strict=True)]
    low, high = sum(min(span, 0) for span in spans), sum(max(span, 0) for span in spans)
    pitch = 0 if shared or batch == 1 else -(-(high - low + 1) // 8) * 8
    memory = np.zeros(lead + pitch * (batch - 1) + high - low + 1, dtype.numpy())
    start = lead - low
    view = np.lib.stride_tricks.as_strided(
        memory[start:], shape, [step * dtype.bytes for step in (pitch, *strides)]
    )
    alignment = min(start * dtype.bytes & -(start * dtype.bytes) or 256, _MOST_ALIGNED)
    return Laid(Matrix(dtype, rows, cols, *strides, pitch, alignment), memory, start, view)


@dataclass(frozen=True)
class Case:
    """A request and what its operands hold; `vectors` are those of its epilogue's parts."""

    request: Request
    operands: dict[str, Laid]
    vectors: dict[str, npt.NDArray[np.float32]] = field(default_factory=dict)


def case(
    random: np.random.Generator,
    dtype: DType,
    m: int,
    n: int,
    k: int,
    *,
    out: DType | None = None,
    batch: int = 1,
    layouts: tuple[str, str, str] = ("n", "n", "n"),
    leads: tuple[int, int, int] = (0, 0, 0),
    shared: tuple[bool, bool] = (False, False),
    parts: Sequence[str] = (),
) -> Case:
    """A product with random operands. `parts` are "bias" along N, "scale" of each row, and "gate":
    then `n` is that of the result, and b has 2·n columns."""
    width = n * (2 if "gate" in parts else 1)
    chain: list[Part] = []
    vectors: dict[str, npt.NDArray[np.float32]] = {}
    for word in parts:
        if word == "bias":
            cols = n if chain else width
            chain.append(Bias(Matrix(FP32, m, cols, 0, 1, cols)))
            vectors[word] = random.standard_normal((batch, 1, cols), np.float32)
        elif word == "scale":
            chain.append(Scale(Matrix(FP32, m, n, 1, 0, m)))
            vectors[word] = random.standard_normal((batch, m, 1), np.float32)
        else:
            chain.append(Gate("swiglu", n))
    operands = {
        "a": laid(dtype, (batch, m, k), layouts[0], leads[0], shared[0]),
        "b": laid(dtype, (batch, k, width), layouts[1], leads[1], shared[1]),
        "out": laid(out or dtype, (batch, m, n), layouts[2], leads[2]),
    }
    for name in ("a", "b"):
        memory = operands[name].memory
        memory[:] = random.standard_normal(memory.shape, np.float32)
    operands["out"].memory[:] = np.nan
    a, b, result = (operands[name].matrix for name in ("a", "b", "out"))
    request = Request(a, b, result, batch=batch, epilogue=tuple(chain))
    return Case(request, operands, vectors)


@dataclass(frozen=True)
class Bench:
    """What kernel tests need, on one engine: its body is the same for both."""

    engine: Engine
    gpu: Gpu

    case = staticmethod(case)
    laid = staticmethod(laid)
    layouts = tuple(LAYOUTS)

    def check(self, given: Case, plan: Plan) -> list[Report]:
        """Runs a plan and asserts that all is right. Returns the emulator's reports."""
        buffers = {name: self.engine.upload(vector) for name, vector in given.vectors.items()}
        for name, one in given.operands.items():
            buffers[name] = self.engine.upload(one.memory)
        buffers[WORKSPACE] = self.engine.empty((plan.workspace_bytes,), np.dtype(np.uint8))
        bindings = {name: buffer.address for name, buffer in buffers.items()}
        for name, one in given.operands.items():
            bindings[name] += one.start * one.matrix.dtype.bytes
        reports = [self.launch(step, bindings) for step in plan.steps]
        given.operands["out"].memory[:] = self.engine.download(buffers["out"])
        assert (said := wrong(given)) == "", f"{plan.config}: {said}"
        return [report for report in reports if report is not None]

    def launch(self, step: Step, bindings: Bindings) -> Report | None:
        """Builds and runs a step: no spills, no wgmma that waits for another, no findings."""
        artifact = build(step.source, step.arch)
        assert artifact.resources[step.kernel].spill_bytes == 0, step.source.defines
        assert artifact.serialized == (), step.source.defines
        report = self.engine.launch(step.launch(artifact, bindings))
        if report is not None:
            assert report.completed
            assert report.findings == [], report.findings[0]
        return report


def wrong(given: Case) -> str:
    """What is wrong with the result, "" if nothing is. What lies between its elements must still
    be NaN, as it was before."""
    out = given.operands["out"]
    arrays = {name: given.operands[name].view for name in ("a", "b")} | given.vectors
    if said := expected(given.request, arrays).verdict(out.view).message:
        return said
    out.view[...] = np.nan
    return "" if np.isnan(out.memory.astype(np.float32)).all() else "written between the elements"


@pytest.fixture(params=["emulator", pytest.param("gpu", marks=pytest.mark.gpu)])
def bench(request: pytest.FixtureRequest, compiler: str) -> Bench:
    """On each engine; the GPU's tests are skipped, and counted, where there is none."""
    if request.param == "gpu" and not gpus_found():
        pytest.skip("no NVIDIA GPU here")
    engine = open_engine(request.param)
    return Bench(engine, gpu_reported(engine.title.split(",")[0]) or GPUS[DEFAULT_GPU])


@pytest.fixture
def bench_of(compiler: str) -> Callable[[str], Bench]:
    """In the emulator, for a GPU by its name."""
    return lambda name: Bench(EmulatorEngine(GPUS[name]), GPUS[name])
