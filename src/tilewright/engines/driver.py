"""libcuda for the gpu engine: one way to call it and one way for it to fail.

The functions are the driver's, through cuda.bindings. cuda.core is not used here: it cannot pass
structs by value or grant shared memory above 48 KiB, and its error type is private.
Only this file and probe.py load the driver.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from tilewright.engines import probe
from tilewright.errors import EngineError

_WAY_OUT = "use --engine emulator, which needs no GPU"
# After these the context is lost: every later call in the process fails with the same code.
_FAULTS = {
    "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
}


class Driver:
    """libcuda with one way to call and one way to fail: each return code is checked.

    Raises: EngineError naming the function, the driver's error name and its explanation; also
    where no driver is found, and in a child process forked after the driver was opened.
    """

    def __init__(self) -> None:
        if not probe.driver_available():
            raise EngineError(f"no NVIDIA GPU was found: this machine has no driver; {_WAY_OUT}.")
        try:
            self.types = importlib.import_module("cuda.bindings.driver")
        except ImportError as error:
            raise EngineError(
                f"the GPU engine needs cuda-bindings ({error}): pip install 'tilewright[cu13]'; "
                f"or {_WAY_OUT}."
            ) from None
        self._pid = os.getpid()
        try:
            self("cuInit", 0)
        except EngineError as error:
            raise EngineError(f"no NVIDIA GPU was found: {error} Or {_WAY_OUT}.") from None

    def __call__(self, function: str, *args: Any) -> Any:
        """Calls `function`; returns its one result, or the tuple of them."""
        if not self.usable():
            raise EngineError(
                "the GPU was opened before this process was forked, and a CUDA context does not "
                "survive that; start the process with the spawn method of multiprocessing."
            )
        code, *values = getattr(self.types, function)(*args)
        if int(code) != 0:
            raise EngineError(self.failed(function, code))
        return values[0] if len(values) == 1 else tuple(values)

    def failed(self, function: str, code: Any) -> str:
        """The sentence for a return code, also a plain number, that is not success."""
        known = self.types.CUresult(code) if type(code) is int else code
        return f"{function} failed with {self._explain(known)}."

    def usable(self) -> bool:
        return os.getpid() == self._pid

    def enum(self, kind: str, name: str) -> Any:
        return getattr(getattr(self.types, kind), name)

    def quietly(self, function: str, *args: Any) -> None:
        """For finalizers, which cannot raise; a fault was already told by the call that met it."""
        if self.usable():
            getattr(self.types, function)(*args)

    def _explain(self, code: Any) -> str:
        failed, text = self.types.cuGetErrorString(code)
        words = f" ({text.decode()})" if int(failed) == 0 else ""
        lost = (
            ": a kernel faulted and this process's context is lost; start a new process, and "
            "look for the access with --engine emulator"
        )
        name = getattr(code, "name", code)  # a newer driver may have codes unknown here
        return f"{name}{words}{lost if name in _FAULTS else ''}"


class Context:
    """One GPU's primary context, which torch in the same process shares, and its memory.

    Never released before the process ends: others may use it. Memory dropped while a graph is
    being captured is freed afterwards, since a free would end the capture.
    """

    def __init__(self, driver: Driver, ordinal: int) -> None:
        self.call = driver
        self.device = driver("cuDeviceGet", ordinal)
        self._handle = driver("cuDevicePrimaryCtxRetain", self.device)
        self.capturing = False
        self._dropped: list[int] = []

    def enter(self) -> None:
        """Makes the context current in the calling thread; every public call does this first."""
        self.call("cuCtxSetCurrent", self._handle)

    def settle(self) -> None:
        """Waits for the work of all streams of the context, other libraries' too."""
        self.enter()
        self.call("cuCtxSynchronize")

    def attribute(self, name: str) -> int:
        which = self.call.enum("CUdevice_attribute", f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", which, self.device))

    def allocate(self, size_bytes: int) -> int:
        try:
            return int(self.call("cuMemAlloc", max(size_bytes, 1)))
        except EngineError as error:
            free, total = self.call("cuMemGetInfo")
            raise EngineError(
                f"{size_bytes} bytes of GPU memory could not be had, {free} of {total} are free: "
                f"{error}"
            ) from None

    def free(self, address: int) -> None:
        if self.capturing:
            self._dropped.append(address)
            return
        self.call.quietly("cuCtxSetCurrent", self._handle)
        self.call.quietly("cuMemFree", address)

    def end_capture(self) -> None:
        self.capturing = False
        while self._dropped:
            self.free(self._dropped.pop())


def ordinal_of(address: int) -> int:
    """The GPU that a device address belongs to. Raises: EngineError for other addresses."""
    driver = Driver()
    which = driver.enum("CUpointer_attribute", "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL")
    return int(driver("cuPointerGetAttribute", which, address))


def finish(stream: int) -> None:
    """Waits for the work of a stream of the current context. 1 and 2 are the default streams, the
    legacy one and the thread's own."""
    Driver()("cuStreamSynchronize", stream)
