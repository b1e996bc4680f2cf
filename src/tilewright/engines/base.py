"""The one seam between a launch and what runs it; nothing outside `engines/` knows more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from tilewright.emulator.report import Report
    from tilewright.launch import Launch


class Buffer(Protocol):
    """Memory of an engine. `address` goes into kernel parameters; it is 256-byte aligned."""

    @property
    def address(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...


class Engine(Protocol):
    """Runs launches in order. Work may still be under way after `launch`; `download` waits.

    `name` is "gpu" or "emulator"; `arch` the architecture whose artifact it takes ("sm_90");
    `title` what a person is told ("NVIDIA H200, driver 580.159"); `sms` the multiprocessors and
    `shared_bytes_limit` the shared memory of a block, with the opt-in, of the GPU that runs or is
    modelled.
    Raises: EngineError when a call fails, with the driver's word for it.
    """

    name: str
    arch: str
    title: str
    sms: int
    shared_bytes_limit: int

    def upload(self, array: npt.NDArray[Any]) -> Buffer:
        """A copy of the array on the engine."""
        ...

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Buffer:
        """Memory filled with 0xFF bytes, which are NaN in every floating type we use."""
        ...

    def download(self, buffer: Buffer) -> npt.NDArray[Any]:
        """The buffer's contents, once all launches so far have finished."""
        ...

    def launch(self, launch: Launch) -> Report | None:
        """Runs the kernel; the emulator reports what it counted."""
        ...
