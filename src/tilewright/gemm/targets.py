"""Where a product runs: an engine, the GPU that it is planned for, and how to find them again."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilewright.engines.choose import which
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import InputError
from tilewright.gemm.arrays import HOST, Operand
from tilewright.gpus import DEFAULT_GPU, GPUS, Gpu, gpu_named, gpu_reported

if TYPE_CHECKING:
    from tilewright.engines.base import Buffer
    from tilewright.engines.gpu import GpuEngine

_MIDDLING = "a100"  # whose figures stand for those of a GPU that nothing is known of
_ZERO_BYTES = 16

_opening = threading.Lock()
_gpus: dict[int, GpuTarget] = {}
_of_thread = threading.local()  # emulators: their memory is one thread's


@dataclass(eq=False)
class GpuTarget:
    """A GPU of this machine. `note` is a sentence where it is not in the table."""

    engine: GpuEngine
    gpu: Gpu
    note: str | None

    @cached_property
    def zeros(self) -> Buffer:
        """One element, zero, of any type: what is multiplied where K is 0."""
        return self.engine.upload(np.zeros(_ZERO_BYTES, np.uint8))


@dataclass(eq=False)
class EmulatorTarget:
    """The emulator, which stands for one GPU of the table."""

    engine: EmulatorEngine
    gpu: Gpu
    note: str | None = None


def target_of(operand: Operand, engine: str) -> GpuTarget | EmulatorTarget:
    """Where operands that lie like this one are multiplied.

    Raises: InputError for an unknown engine, and for the emulator where the memory is a GPU's;
    EngineError where a GPU is asked for and there is none.
    """
    chosen = which(engine, None)
    if operand.ordinal == HOST:
        return gpu_target(0) if chosen == "gpu" else emulator_target(DEFAULT_GPU)
    if engine == "emulator":
        raise InputError(
            f"engine='emulator' takes NumPy arrays, and {operand.form.argument} lies on "
            f"{operand.place}; copy it to the host."
        )
    return gpu_target(operand.ordinal)


def emulator_target(name: str) -> EmulatorTarget:
    """The calling thread's emulator of a GPU of the table."""
    known: dict[str, EmulatorTarget] = _of_thread.__dict__.setdefault("targets", {})
    if name not in known:
        gpu = gpu_named(name)
        known[name] = EmulatorTarget(EmulatorEngine(gpu), gpu)
    return known[name]


def gpu_target(ordinal: int) -> GpuTarget:
    """This machine's GPU of that number, opened once a process."""
    with _opening:
        if ordinal not in _gpus:
            from tilewright.engines.gpu import GpuEngine

            engine = GpuEngine(ordinal)
            _gpus[ordinal] = GpuTarget(engine, *described(engine))
        return _gpus[ordinal]


def described(engine: GpuEngine) -> tuple[Gpu, str | None]:
    """The GPU behind an engine, with the multiprocessors and the shared memory that it has.

    One that is not in the table gets the figures of one of its architecture and the name of its
    own, and a sentence that says so.
    """
    known = gpu_reported(engine.gpu_name)
    likely = [gpu for gpu in GPUS.values() if gpu.arch == engine.arch]
    like = known or (likely[0] if likely else gpu_named(_MIDDLING))
    gpu = replace(
        like,
        title=engine.gpu_name,
        arch=engine.arch,
        sms=engine.sms,
        l2_bytes=engine.l2_bytes,
        shared_bytes_per_block=engine.shared_bytes_limit,
    )
    if known is not None:
        return gpu, None
    note = (
        f"{engine.gpu_name} ({engine.arch}) is not in the table of GPUs; plans are ranked by the "
        f"figures of {like.title}"
    )
    return replace(gpu, name=engine.gpu_name), note
