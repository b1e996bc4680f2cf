"""Measuring the plans of a request, and remembering the fastest of those that are right."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from tilewright.errors import EngineError
from tilewright.gemm.arrange import FACTORS, Job
from tilewright.gemm.arrays import HOST, Operand
from tilewright.gemm.form import Form
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.plan import Plan
from tilewright.gemm.reference import Expected, expected
from tilewright.gemm.request import Request
from tilewright.gemm.run import bytes_of, image, launch
from tilewright.gpus import Gpu

if TYPE_CHECKING:
    from tilewright.engines.base import Buffer
    from tilewright.engines.gpu import GpuEngine, Replay
    from tilewright.gemm.targets import GpuTarget

_ROUNDS = 7
_SAMPLE_US = 300.0  # of one sample: so many replays in a row
_MOST_REPLAYS = 50
_MARGIN = 0.01  # by which a plan must be faster than the one that the models put first
_CHECKED_ROWS = 32
_ALIGNMENT = 256

_measuring = threading.Lock()
_best: dict[tuple[Request, Gpu], Plan] = {}


@dataclass(frozen=True)
class Timing:
    """What was measured of a plan: the median time of its launches in µs, from a warm cache; None,
    and a sentence in `wrong`, for one that is not right."""

    plan: Plan
    us: float | None
    wrong: str = ""


def best_known(request: Request, gpu: Gpu) -> Plan | None:
    """The plan that tuning chose in this process, if it was tuned."""
    return _best.get((request, gpu))


def tune(
    target: GpuTarget,
    job: Job,
    plans: tuple[Plan, ...],
    operands: Mapping[str, Operand],
    out: Form,
    scalars: Mapping[str, float],
) -> tuple[Timing, ...]:
    """Measures the plans of a job with elements, ranked ones first; `out` is the result's form.

    The operands are only read, results go to memory of its own, which holds poison before each
    candidate; each is held to the float64 reference in a sample of rows.
    Raises: EngineError where a kernel faults, with its configuration, and where no plan is right.
    """
    assert job.request is not None
    with _measuring, target.engine.entered():
        target.engine.context.settle()  # what the caller's streams still write is read here
        bench = _Bench(target, replace(job, offsets=job.offsets[:1]), operands, out, scalars)
        wrong = {plan: bench.fault(plan) for plan in plans}
        right = [plan for plan in plans if not wrong[plan]]
        times = bench.times(right)
        found = tuple(Timing(plan, times.get(plan), wrong[plan]) for plan in plans)
        if not right:
            said = "; ".join(f"{t.plan.kernel} {t.plan.config}: {t.wrong}" for t in found)
            raise EngineError(f"no plan gives the right result: {said}.")
        fastest = min(right, key=lambda plan: times[plan])
        if times[fastest] > times[right[0]] * (1 - _MARGIN):
            fastest = right[0]
        _best[job.request, target.gpu] = fastest
    return found


class _Bench:
    """Operands where they lie, or copied to the GPU, and a result of its own for all plans."""

    def __init__(
        self,
        target: GpuTarget,
        job: Job,
        operands: Mapping[str, Operand],
        out: Form,
        scalars: Mapping[str, float],
    ) -> None:
        assert job.request is not None
        self._engine: GpuEngine = target.engine
        self._job, self._request, self._scalars = job, job.request, scalars
        used = {n: each for n, each in operands.items() if not (job.zeros and n in FACTORS)}
        images = [image(self._engine, each) for each in used.values() if each.ordinal == HOST]
        self._held: list[object] = list(images)
        self._addresses = {name: operand.address for name, operand in used.items()}
        self._addresses |= {
            name: made.address
            for made in images
            for name, operand in used.items()
            if operand is made.operand
        }
        if job.zeros:
            self._addresses |= dict.fromkeys(FACTORS, target.zeros.address)
        low, high = out.span
        self._at = -low + (out.alignment + low) % 16
        self._out = self._engine.empty((self._at + high,), np.dtype(np.uint8))
        self._addresses["out"] = self._out.address + self._at
        self._workspace: Buffer | None = None
        self._expected = self._reference(used)

    # --- What is right -----------------------------------------------------------------------

    def _reference(self, operands: Mapping[str, Operand]) -> Expected:
        request = self._request
        arrays: dict[str, Any] = {
            name: self._view(bytes_of(self._engine, operand), -operand.form.span[0], name)
            for name, operand in operands.items()
        }
        if self._job.zeros:
            arrays |= {"a": np.zeros((request.m, 1)), "b": np.zeros((1, request.n))}
        return expected(request, {**arrays, **self._scalars}, self._rows)

    @property
    def _rows(self) -> npt.NDArray[np.int64]:
        count = min(_CHECKED_ROWS, self._request.m)
        return np.unique(np.linspace(0, self._request.m - 1, count).astype(np.int64))

    def _view(self, raw: npt.NDArray[np.uint8], at: int, name: str) -> npt.NDArray[Any]:
        """The first and the last matrix of the batch, from bytes whose element (0, 0) is at `at`;
        one if all are the same."""
        m = _matrices(self._request)[name]
        size = m.dtype.bytes
        at += self._job.offsets[0].get(name, 0)
        first = raw[at : at + size].view(m.dtype.numpy())
        count = 2 if self._request.batch > 1 and m.batch_stride else 1
        strides = ((self._request.batch - 1) * m.batch_stride, m.row_stride, m.col_stride)
        shape = (count, m.rows, m.cols)
        return as_strided(first, shape, [stride * size for stride in strides])

    def fault(self, plan: Plan) -> str:
        """What is wrong with the plan's result, "" if nothing is."""
        engine = self._engine
        engine.refill(self._out)
        try:
            self._enqueue(plan)()
            raw = engine.download(self._out)
        except EngineError as error:
            raise EngineError(f"{plan.kernel} {plan.config}: {error}") from error
        got = self._view(raw, self._at, "out")
        poisoned = int((_bits(got) == np.iinfo(_bits(got).dtype).max).sum())
        if poisoned:
            return f"{poisoned} of {got.size} elements were not written"
        if self._request.batch > 1 and got.shape[0] != self._expected.exact.shape[0]:
            got = got[: self._expected.exact.shape[0]]
        sampled = np.ascontiguousarray(got[:, self._rows, :])
        return self._expected.verdict(sampled.reshape(self._expected.exact.shape)).message

    # --- Time --------------------------------------------------------------------------------

    def times(self, plans: list[Plan]) -> dict[Plan, float]:
        """Median µs of each, in rounds in which all take their turn."""
        replays = {plan: self._engine.capture(self._enqueue(plan)) for plan in plans}
        counts = {plan: self._count(replay) for plan, replay in replays.items()}
        samples: dict[Plan, list[float]] = {plan: [] for plan in plans}
        for _ in range(_ROUNDS):
            for plan, replay in replays.items():
                samples[plan].append(self._sample(replay, counts[plan]))
        return {plan: median(each) for plan, each in samples.items()}

    def _count(self, replay: Replay) -> int:
        self._sample(replay, 1)  # the first one uploads the graph
        return max(1, min(_MOST_REPLAYS, int(_SAMPLE_US / max(self._sample(replay, 1), 1e-3))))

    def _sample(self, replay: Replay, count: int) -> float:
        start = self._engine.record()
        for _ in range(count):
            replay.replay()
        return self._engine.elapsed_us(start, self._engine.record()) / count

    def _enqueue(self, plan: Plan) -> Callable[[], None]:
        """The plan's launches on the engine's stream, in a workspace that all plans share."""
        if self._workspace is None or self._workspace.shape[0] < plan.workspace_bytes:
            nbytes = max(plan.workspace_bytes, _ALIGNMENT)
            self._workspace = self._engine.empty((nbytes,), np.dtype(np.uint8))
            self._held.append(self._workspace)  # graphs of other plans have the smaller one
        workspace, engine = self._workspace.address, self._engine

        def work() -> None:
            launch(engine.launch, self._job, plan, self._addresses, workspace, self._scalars)

        return work


def _matrices(request: Request) -> dict[str, Matrix]:
    """All operands of a request, by name."""
    read = {name: each for part in request.epilogue for name, each in part.operands.items()}
    return {"a": request.a, "b": request.b, "out": request.out, **read}


def _bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    whole = np.ascontiguousarray(array)
    return whole.view(f"u{whole.dtype.itemsize}")
