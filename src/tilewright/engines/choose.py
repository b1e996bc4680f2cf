"""Which engine runs: the one asked for, or the GPU if there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.engines.probe import gpus_found
from tilewright.errors import InputError
from tilewright.gpus import DEFAULT_GPU, gpu_named, gpu_reported

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
    if which(engine, gpu) == "emulator":
        from tilewright.engines.emulator import EmulatorEngine

        return EmulatorEngine(gpu_named(gpu or DEFAULT_GPU))
    from tilewright.engines.gpu import GpuEngine  # imports what only a GPU machine has

    opened = GpuEngine()
    if gpu is not None and gpu_reported(opened.gpu_name) != gpu_named(gpu):
        raise InputError(
            f"gpu={gpu!r} is not the one here, {opened.gpu_name}; leave it out, or use "
            "--engine emulator to count for it."
        )
    return opened


def which(engine: str, gpu: str | None) -> str:
    """ "gpu" or "emulator": the engine that would run. Raises: InputError for unknown names."""
    if engine not in ENGINES:
        raise InputError(f"engine={engine!r} is not known; use auto, gpu or emulator.")
    wanted = gpu_named(gpu) if gpu is not None else None
    if engine != "auto":
        return engine
    found = gpus_found()
    here = wanted is None or wanted in [gpu_reported(one.name) for one in found]
    return "gpu" if found and here else "emulator"
