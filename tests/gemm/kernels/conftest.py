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
from tilewright.dtypes import FP32, DType
from tilewright.engines.emulator import EmulatorEngine
from tilewright.gemm.kernels.source import columns
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.part import Part, Wide
from tilewright.gemm.plan import Plan
from tilewright.gemm.request import Request
from tilewright.gemm.step import WORKSPACE, Address, Value
from tilewright.gpus import GPUS
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
    matrices = {name: one.matrix for name, one in operands.items()}
    return Case(Request(**matrices, batch=batch, epilogue=tuple(chain)), operands, vectors)


def run(given: Case, plan: Plan, gpu: str = "h200") -> list[Any]:
    """Runs a plan in the emulator: `out` of the case holds the result. Returns the reports."""
    engine = EmulatorEngine(GPUS[gpu])
    bindings: dict[str, int] = {}
    buffers = {name: engine.upload(one.memory) for name, one in given.operands.items()}
    for name, one in given.operands.items():
        bindings[name] = buffers[name].address + one.start * one.matrix.dtype.bytes
    for name, vector in given.vectors.items():
        bindings[name] = engine.upload(vector).address
    if plan.workspace_bytes:
        workspace = engine.empty((plan.workspace_bytes,), np.dtype(np.uint8))
        bindings[WORKSPACE] = workspace.address
    reports = []
    for step in plan.steps:
        source = replace(step.source, include_path=(str(HERE),))
        artifact = build(source, step.arch)
        assert artifact.resources[step.kernel].spill_bytes == 0, plan
        reports.append(engine.launch(step.launch(artifact, bindings)))
    given.operands["out"].memory[:] = engine.download(buffers["out"])
    return reports


def wrong(given: Case) -> str:
    """What is wrong with the result, "" if nothing is. What lies between its elements must still be
    NaN; with a gate, whose bound is the product's, derived, of normal sums."""
    request, out = given.request, given.operands["out"]
    a, b = given.operands["a"].view, given.operands["b"].view
    fits = replace(
        request.a.dtype, unit_roundoff=out.matrix.dtype.unit_roundoff, tiny=out.matrix.dtype.tiny
    )
    if request.a.dtype == out.matrix.dtype == FP32:
        fits = FP32
    exact, bound = (
        np.stack(arrays)
        for arrays in zip(
            *((o.exact, o.bound) for o in (oracle(x, y, fits) for x, y in zip(a, b, strict=True))),
            strict=True,
        )
    )
    result = exact
    for part in request.epilogue:
        low, high = (
            part.numpy(result - bound, given.vectors),
            part.numpy(result + bound, given.vectors),
        )
        after = part.numpy(result, given.vectors)
        if part.columns == 2:
            gate, up = np.split(np.abs(result), 2, axis=-1)
            gate_bound, up_bound = np.split(bound, 2, axis=-1)
            bound = gate * up_bound + up * gate_bound + gate_bound * up_bound
        else:
            bound = np.maximum(np.abs(low - after), np.abs(high - after))
        result = after
        bound = bound + 2 * (2.0**-24 + fits.unit_roundoff) * np.abs(result) + fits.tiny
    got = out.view.astype(np.float64)
    off = ~(np.abs(got - result) <= bound)
    if off.any():
        where = tuple(int(i) for i in np.argwhere(off)[0])
        return (
            f"{off.sum()} of {off.size} wrong, first at {where}: {got[where]} for {result[where]}"
        )
    out.view[...] = np.nan
    return "" if np.isnan(out.memory.astype(np.float32)).all() else "written between the elements"


@dataclass(frozen=True)
class Bench:
    """The functions above, for tests that cannot import this file."""

    case: Callable[..., Case] = case
    run: Callable[..., list[Any]] = run
    wrong: Callable[[Case], str] = wrong
    laid: Callable[..., Laid] = laid
    columns: Callable[..., int] = columns
    layouts: tuple[str, ...] = tuple(LAYOUTS)

    def check(self, given: Case, plan: Plan, gpu: str = "h200") -> list[Any]:
        """Runs and asserts that nothing is wrong. Returns the reports."""
        reports = run(given, plan, gpu)
        for report in reports:
            assert report.completed
            assert report.findings == [], report.findings[0]
        assert (said := wrong(given)) == "", f"{plan.config}: {said}"
        return reports


@pytest.fixture(scope="session")
def bench(compiler: str) -> Bench:
    return Bench()
