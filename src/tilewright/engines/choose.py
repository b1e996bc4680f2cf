"""Which engine runs: the one asked for, or the GPU if there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.engines.probe import gpus_found
from tilewright.errors import InputError
from tilewright.gpus import DEFAULT_GPU, gpu_named

if TYPE_CHECKING:
    from tilewright.engines.emulator import EmulatorEngine
    from tilewright.engines.gpu import GpuEngine

ENGINES = ("auto", "gpu", "emulator")


def open_engine(engine: str = "auto", gpu: str | None = None) -> GpuEngine | EmulatorEngine:
    """The engine called `engine`.

    "auto" takes the installed GPU, unless `gpu` names another one of the table: then the
    emulator counts for that one.
    Raises: InputError for an unknown name, or `gpu` with the engine gpu when it is not the one
    installed; EngineError when a GPU is asked for and none is there.
    """
    if engine not in ENGINES:
        raise InputError(f"engine={engine!r} is not known; use auto, gpu or emulator.")
    wanted = gpu_named(gpu) if gpu is not None else None
    if engine == "emulator":
        return _emulator(gpu)
    found = gpus_found() if engine == "auto" else []
    named_is_here = wanted is None or any(wanted.title in f.name for f in found)
    if engine == "auto" and not (found and named_is_here):
        return _emulator(gpu)
    from tilewright.engines.gpu import GpuEngine  # imports what only a GPU machine has

    opened = GpuEngine()
    if wanted is not None and wanted.title not in opened.gpu_name:
        raise InputError(
            f"gpu={gpu!r} is not the one here, {opened.gpu_name}; leave it out, or use "
            "--engine emulator to count for it."
        )
    return opened


def _emulator(gpu: str | None) -> EmulatorEngine:
    from tilewright.engines.emulator import EmulatorEngine

    return EmulatorEngine(gpu_named(gpu or DEFAULT_GPU))
