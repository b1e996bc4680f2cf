"""Operands that lie in memory in every way, parts of an epilogue, and plans run in the emulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.build import build
from tilewright.dtypes import DType
from tilewright.emulator.report import Report
from tilewright.engines.base import Engine
from tilewright.engines.choose import open_engine
from tilewright.engines.emulator import EmulatorEngine
from tilewright.engines.probe import gpus_found
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.part import Part, Wide
from tilewright.gemm.plan import Plan
from tilewright.gemm.request import Request
from tilewright.gemm.step import WORKSPACE, Address, Bindings, Step, Value
from tilewright.gpus import DEFAULT_GPU, GPUS, Gpu, gpu_reported
from tilewright.verify import oracle

HERE = Path(__file__).parent
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
class TestPart:
    """A part of parts.cuh; its vector lies at `name`."""

    name: str
    word: str
    cols: bool
    columns: int
    batch: int

    __test__ = False

    @property
    def cpp(self) -> str:
        return f"test::{self.word}"

    header = "parts.cuh"

    @property
    def operands(self) -> Mapping[str, Matrix]:
        return {}

    @property
    def fields(self) -> tuple[tuple[str, str, Value], ...]:
        return ("at", "u8", Address(self.name)), ("batch", "i8", self.batch)

    def numpy(self, x: Wide, operands: Mapping[str, npt.NDArray[Any]]) -> Wide:
        vector = operands[self.name].astype(np.float64)
        along = vector[:, None, :] if self.cols else vector[:, :, None]
        if self.columns == 2:
            gate, up = np.split(x, 2, axis=-1)
            return gate * up + along
        return x + along if self.word == "Shift" else x * along


@dataclass(frozen=True)
class Case:
    """A request and what its operands hold."""

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
    """A product with random operands. `parts` are words of parts.cuh; with a Gate, `n` is that of
    the result, and b has 2·n columns."""
    gate = "Gate" in parts
    chain: list[Part] = []
    vectors: dict[str, npt.NDArray[np.float32]] = {}
    for place, word in enumerate(parts):
        length = m if word == "Weigh" else n
        part = TestPart(f"v{place}", word, word != "Weigh", 2 if word == "Gate" else 1, length)
        vectors[part.name] = random.standard_normal((batch, length), np.float32)
        chain.append(part)
    operands = {
        "a": laid(dtype, (batch, m, k), layouts[0], leads[0], shared[0]),
        "b": laid(dtype, (batch, k, n * (2 if gate else 1)), layouts[1], leads[1], shared[1]),
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
        artifact = build(replace(step.source, include_path=(str(HERE),)), step.arch)
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
    exact, bound = _expected(given)
    got = out.view.astype(np.float64)
    off = ~(np.abs(got - exact) <= bound)
    if off.any():
        at = tuple(int(i) for i in np.argwhere(off)[0])
        return f"{off.sum()} of {off.size} wrong, first {at}: {got[at]}, not {exact[at]}"
    out.view[...] = np.nan
    return "" if np.isnan(out.memory.astype(np.float32)).all() else "written between the elements"


def _expected(given: Case) -> tuple[Wide, Wide]:
    """The float64 result and what it may differ by: the product's bound, as each part hands it on,
    and two roundings in fp32 and one of the result for each part."""
    dtype, out = given.request.a.dtype, given.request.out.dtype
    stored = (
        dtype if dtype == out else replace(dtype, unit_roundoff=out.unit_roundoff, tiny=out.tiny)
    )
    pairs = zip(given.operands["a"].view, given.operands["b"].view, strict=True)
    oracles = [oracle(a, b, stored) for a, b in pairs]
    exact = np.stack([one.exact for one in oracles])
    bound = np.stack([one.bound for one in oracles])
    for part in given.request.epilogue:
        if part.columns == 2:
            gate, up = np.split(np.abs(exact), 2, axis=-1)
            of_gate, of_up = np.split(bound, 2, axis=-1)
            bound = gate * of_up + up * of_gate + of_gate * of_up
        else:
            low, high = (part.numpy(exact + sign * bound, given.vectors) for sign in (-1, 1))
            bound = np.abs(high - low) / 2
        exact = part.numpy(exact, given.vectors)
        bound = bound + (2.0**-22 + stored.unit_roundoff) * np.abs(exact) + stored.tiny
    return exact, bound


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
