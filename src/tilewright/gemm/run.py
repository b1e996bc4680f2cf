"""A job on an engine: what is compiled, where the operands lie, the launches in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from tilewright.build import build
from tilewright.dtypes import FP32
from tilewright.emulator.report import Report
from tilewright.errors import EmulatorError
from tilewright.gemm.arrange import FACTORS, Job
from tilewright.gemm.arrays import HOST, Operand
from tilewright.gemm.plan import Plan
from tilewright.gemm.step import WORKSPACE

if TYPE_CHECKING:
    from tilewright.artifact import Artifact, Source
    from tilewright.engines.base import Buffer, Engine
    from tilewright.engines.gpu import GpuEngine
    from tilewright.gemm.targets import GpuTarget
    from tilewright.launch import Launch

_ALIGNMENT = 16  # of an operand's address that a plan may build on; larger powers mean nothing
_POISON = 0xFF  # a workspace holds NaN before, so that nothing rests on what it held


@lru_cache(maxsize=1024)
def artifact(source: Source, arch: str) -> Artifact:
    return build(source, arch)


@dataclass(frozen=True, eq=False)
class Image:
    """An operand of the host on an engine: all bytes from its first to its last element."""

    operand: Operand
    buffer: Buffer
    address: int  # of the operand's first element

    def fetch(self, engine: Engine) -> None:
        """Copies the elements, and nothing between them, back to where they came from."""
        raw = engine.download(self.buffer)
        form = self.operand.form
        at = self.address - self.buffer.address
        first = raw[at : at + form.dtype.bytes].view(form.dtype.numpy())
        strides = [stride * form.dtype.bytes for stride in form.strides]
        self.operand.array[...] = as_strided(first, form.shape, strides)


def image(engine: Engine, operand: Operand, fresh: bool = False) -> Image:
    """The operand on the engine, as far from a multiple of 16 as it lies in the host.

    A `fresh` one is row-major memory that nothing was written to yet; it lies at such a multiple.
    """
    low, high = operand.span
    if fresh:
        buffer: Buffer = engine.empty((high - low,), np.dtype(np.uint8))
        return Image(operand, buffer, buffer.address)
    pad = low % _ALIGNMENT
    raw = np.empty(pad + high - low, np.uint8)
    raw[:pad] = _POISON
    raw[pad:] = _of_host(operand)
    buffer = engine.upload(raw)
    return Image(operand, buffer, buffer.address + pad + operand.address - low)


def _of_host(operand: Operand) -> npt.NDArray[np.uint8]:
    """The memory of an array of the host, from its lowest to its highest element."""
    lowest = operand.array
    for axis, stride in enumerate(lowest.strides):
        if stride < 0:
            lowest = np.flip(lowest, axis)
    low, high = operand.form.span
    first = lowest[(slice(0, 1),) * lowest.ndim].reshape(1).view(np.uint8)
    return as_strided(first, (high - low,), (1,))


def bytes_of(engine: GpuEngine, operand: Operand) -> npt.NDArray[np.uint8]:
    """The memory of an operand with elements, wherever it lies, from its lowest to its highest."""
    if operand.ordinal == HOST:
        return _of_host(operand)
    low, high = operand.span
    return engine.peek(low, high - low)


def run_on_host_arrays(
    engine: Engine,
    job: Job,
    plan: Plan,
    operands: Mapping[str, Operand],
    scalars: Mapping[str, float],
    fresh: bool,
) -> list[Report]:
    """Uploads NumPy's arrays, runs, and writes the result into the array of "out".

    With `fresh` that array was made for it. Raises: EmulatorError when the emulator finds a fault
    in a kernel of ours.
    """
    images = {
        name: image(engine, operand, fresh and name == "out" and len(job.offsets) == 1)
        for name, operand in operands.items()
        if not (job.zeros and name in FACTORS)
    }
    addresses = {name: made.address for name, made in images.items()}
    held = [_workspace(engine, max(plan.workspace_bytes, 1))]
    if job.zeros:
        held.append(engine.upload(np.zeros(_ALIGNMENT, np.uint8)))
        addresses |= dict.fromkeys(FACTORS, held[-1].address)
    reports = launch(engine.launch, job, plan, addresses, held[0].address, scalars)
    images["out"].fetch(engine)
    _check(plan, reports)
    return reports


def _workspace(engine: Engine, nbytes: int) -> Buffer:
    """Memory that holds NaN. In the emulator its bytes count as written: padding stays as it is."""
    if engine.name == "emulator":
        return engine.upload(np.full(nbytes, _POISON, np.uint8))
    return engine.empty((nbytes,), np.dtype(np.uint8))


def launch(
    enqueue: Callable[[Launch], Report | None],
    job: Job,
    plan: Plan,
    addresses: Mapping[str, int],
    workspace: int,
    scalars: Mapping[str, float],
) -> list[Report]:
    """All launches of the job, for operands at these addresses."""
    reports = []
    for offsets in job.offsets:
        bindings: dict[str, int | float] = {**scalars, WORKSPACE: workspace}
        for name, address in addresses.items():
            stays = job.zeros and name in FACTORS
            bindings[name] = address + (0 if stays else offsets.get(name, 0))
        for step in plan.steps:
            ready = step.launch(artifact(step.source, step.arch), bindings)
            report = enqueue(ready)
            if report is not None:
                reports.append(report)
    return reports


def _check(plan: Plan, reports: list[Report]) -> None:
    for report in reports:
        if report.findings or not report.completed:
            what = report.findings[0].message if report.findings else "it did not end"
            raise EmulatorError(
                f"the kernel {plan.kernel} ({plan.config}) is at fault, please report it: {what}"
            )


def run_on_device_arrays(
    target: GpuTarget,
    job: Job,
    plan: Plan,
    operands: Mapping[str, Operand],
    scalars: Mapping[str, float],
    stream: int | None,
    given: int | None,
) -> None:
    """Launches on `stream`, which is the caller's current one unless it was `given`.

    None means a framework without streams: the launches go to the engine's, and are waited for.
    """
    engine = target.engine
    addresses = {name: operand.address for name, operand in operands.items()}
    if job.zeros and "zeros" not in vars(target) and stream is not None:
        engine.refuse_capture(stream, "the first product over k = 0 cannot run")
    with engine.entered():
        if job.zeros:
            addresses |= dict.fromkeys(FACTORS, target.zeros.address)
        held, workspace = _workspace_among(engine, plan, operands["out"], given)
        launch(lambda it: engine.launch(it, stream), job, plan, addresses, workspace, scalars)
        if stream is None:
            engine.synchronize()
        del held  # used again in the order of the stream, or freed, which waits for all work


def _workspace_among(
    engine: GpuEngine, plan: Plan, like: Operand, given: int | None
) -> tuple[object, int]:
    """The plan's workspace by the allocator of the caller's framework, where it has one; what keeps
    it, and its address."""
    if not plan.workspace_bytes:
        return None, 0
    if like.framework.allocates:
        made = like.framework.empty(like, (-(-plan.workspace_bytes // FP32.bytes),), FP32, given)
        return made, like.framework.read("workspace", made, given).address
    buffer = engine.empty((plan.workspace_bytes,), np.dtype(np.uint8))
    engine.synchronize()  # it was filled on the engine's own stream
    return buffer, buffer.address
