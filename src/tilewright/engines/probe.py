"""Is there a driver, and which GPUs: the one place that asks, and it never raises or hangs.

Everything that calls the driver asks `driver_available()` first: without libcuda a failed call
through cuda.core's `get_kernel` leaves a lock behind, and the next driver call waits for ever.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_VERSION_FILES = ("/sys/module/nvidia/version",)  # Linux; elsewhere nothing tells it cheaply

_NONE_SHOWN = "the NVIDIA driver shows no GPU"


@dataclass(frozen=True)
class GpuFound:
    """A GPU of this machine: its index, marketing name and compute capability."""

    index: int
    name: str
    major: int
    minor: int


@cache
def driver_available() -> bool:
    """Whether libcuda can be loaded. Calls nothing in it. Cost: 0.1 ms once."""
    try:
        importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib("cuda")
    except Exception:  # no package, no library, or one that cannot be loaded: all mean no
        return False
    return True


def gpus_found() -> tuple[GpuFound, ...]:
    """The GPUs that CUDA shows to this process (CUDA_VISIBLE_DEVICES counts); empty if none."""
    return _probed()[0]


def driver_version() -> str | None:
    """The driver's own version, "580.159.03"; None without one or where the system is silent."""
    for name in _VERSION_FILES:
        try:
            return Path(name).read_text(encoding="ascii").strip() or None
        except (OSError, ValueError):
            continue
    return None


def cuda_version() -> tuple[int, int] | None:
    """The newest CUDA version that the driver supports, (13, 0); None without a driver."""
    return _probed()[1]


def gpu_problem() -> str | None:
    """Why no GPU can be used, as a clause ("no NVIDIA driver is installed"); None if one can."""
    return _probed()[2]


@cache
def _probed() -> tuple[tuple[GpuFound, ...], tuple[int, int] | None, str | None]:
    if not driver_available():
        return (), None, "no NVIDIA driver is installed"
    version: tuple[int, int] | None = None
    try:
        driver = importlib.import_module("cuda.bindings.driver")
        number = int(_value(driver.cuDriverGetVersion()))
        version = number // 1000, number % 1000 // 10
        status = driver.cuInit(0)
        if getattr(status[0], "name", "") == "CUDA_ERROR_NO_DEVICE":
            return (), version, _NONE_SHOWN
        _value(status)
        count = int(_value(driver.cuDeviceGetCount()))
        gpus = tuple(_gpu(driver, index) for index in range(count))
    except Exception as error:  # a broken installation must not break a machine's other engine
        return (), version, f"the NVIDIA driver does not work: {error}"
    return gpus, version, None if gpus else _NONE_SHOWN


def _gpu(driver: Any, index: int) -> GpuFound:
    device = _value(driver.cuDeviceGet(index))
    name = _value(driver.cuDeviceGetName(128, device)).split(b"\0")[0].decode(errors="replace")
    kinds = driver.CUdevice_attribute
    major, minor = (
        int(_value(driver.cuDeviceGetAttribute(kind, device)))
        for kind in (
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    return GpuFound(index, name, major, minor)


def _value(result: tuple[Any, ...]) -> Any:
    """What a driver call returned beside its status, or an error with the status's name."""
    if int(result[0]) != 0:
        raise RuntimeError(getattr(result[0], "name", str(result[0])))
    return result[1] if len(result) > 1 else None
