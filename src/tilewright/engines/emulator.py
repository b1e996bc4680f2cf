"""The emulator as an engine, and `tilewright.emulate` for any kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.emulator.arrays import POISON
from tilewright.emulator.compiler import Program, compile_kernel
from tilewright.emulator.machine import Shape
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.parse import parse
from tilewright.emulator.run import Progress, run
from tilewright.errors import InputError
from tilewright.gpus import Gpu
from tilewright.launch import BLOCK_LIMITS, GRID_LIMITS, Launch, dim3

if TYPE_CHECKING:
    from tilewright.emulator.ir import Kernel, Module, Parameter
    from tilewright.emulator.report import Report
    from tilewright.engines.base import Buffer


class EmulatorBuffer:
    """An array of the host at an address of the emulator."""

    def __init__(self, array: npt.NDArray[Any], address: int) -> None:
        self.array, self.address = array, address

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype


class EmulatorEngine:
    """Runs the PTX of artifacts built for one GPU of the table."""

    name = "emulator"

    def __init__(self, gpu: Gpu, progress: Progress | None = None) -> None:
        self.gpu = gpu
        self.arch = gpu.arch
        self.title = f"PTX emulator, counting for {gpu.title} ({gpu.arch})"
        self.progress = progress
        self._memory = GlobalMemory()
        self._programs: dict[tuple[str, str], Program] = {}

    def upload(self, array: npt.NDArray[Any]) -> EmulatorBuffer:
        """A C-contiguous copy of the array."""
        copy = np.array(array, order="C")
        return EmulatorBuffer(copy, self._memory.allocate(copy))

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> EmulatorBuffer:
        """Memory filled with 0xFF bytes: NaN in every floating type we use."""
        array = np.empty(shape, dtype)
        array.reshape(-1).view(np.uint8).fill(POISON)
        return EmulatorBuffer(array, self._memory.allocate(array))

    def download(self, buffer: Buffer) -> npt.NDArray[Any]:
        if not isinstance(buffer, EmulatorBuffer):
            raise InputError(f"a {type(buffer).__name__} is not memory of the emulator; upload it.")
        return buffer.array.copy()

    def launch(self, launch: Launch) -> Report:
        """Runs every block; raises EmulatorError for what is not modelled."""
        key = (launch.artifact.key, launch.kernel)
        if key not in self._programs:
            module = parse(launch.artifact.ptx)
            self._programs[key] = compile_kernel(module, _kernel(module, launch.kernel))
        program = self._programs[key]
        shape = Shape(
            launch.grid, launch.block, launch.shared_bytes, _pack(program.kernel, launch.params)
        )
        return run(program, shape, self._memory, self.progress)


def emulate(
    source: str | Path,
    kernel: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    *,
    shared_bytes: int = 0,
    arch: str = "sm_80",
    defines: Mapping[str, object] | None = None,
    include_path: Sequence[str] = (),
) -> Report:
    """Runs one launch of a kernel in the emulator and reports counts and findings.

    Shapes   `grid` and `block` have 1 to 3 extents. `args` bind by position to the parameters.
    Types    `source` is CUDA C++ or PTX, as text or as the path of a .cu or .ptx file. An
             argument is a C-contiguous NumPy array (changed in place), a number (takes the
             parameter's size), bytes or a NumPy void for a struct by value, or None for null.
    Raises   InputError for arguments that don't fit; CompileError; UnsupportedError. Findings
             never raise.
    Cost     compiles with NVRTC unless `source` is PTX; then milliseconds a block and K step.
    """
    text, name = _read(source)
    module = parse(text if _is_ptx(text) else _compile(text, name, arch, defines, include_path))
    found = _kernel(module, kernel)
    full_grid = dim3("grid", grid, GRID_LIMITS)
    full_block = dim3("block", block, BLOCK_LIMITS)
    if len(args) != len(found.params):
        raise InputError(
            f"args has {len(args)} values; {found.name} takes {len(found.params)} parameters."
        )
    memory = GlobalMemory()
    params = tuple(
        _argument(value, parameter, memory)
        for value, parameter in zip(args, found.params, strict=True)
    )
    shape = Shape(full_grid, full_block, shared_bytes, _pack(found, params))
    return run(compile_kernel(module, found), shape, memory)


def _compile(
    text: str,
    name: str,
    arch: str,
    defines: Mapping[str, object] | None,
    include_path: Sequence[str],
) -> str:
    from tilewright.build import Source, build  # NVRTC, which PTX input does not need

    macros = tuple(sorted((key, str(value)) for key, value in (defines or {}).items()))
    return build(Source(name, text, macros, tuple(include_path)), arch).ptx


def _read(source: str | Path) -> tuple[str, str]:
    """The text and the name to report it by."""
    if isinstance(source, str) and "\n" in source:
        return source, "kernel.cu"
    path = Path(source)
    try:
        return path.read_text(encoding="utf-8"), path.name
    except OSError as error:
        raise InputError(f"source {str(source)!r}: {error.strerror or error}.") from None


def _is_ptx(text: str) -> bool:
    return any(line.lstrip().startswith(".version") for line in text.splitlines())


def _kernel(module: Module, name: str) -> Kernel:
    """The kernel called `name`, or the only one whose symbol contains it."""
    if name in module.kernels:
        return module.kernels[name]
    near = [symbol for symbol in module.kernels if name in symbol]
    if len(near) == 1:
        return module.kernels[near[0]]
    what = "is not unique" if near else "is not in the module"
    listed = ", ".join(near or module.kernels) or "none"
    raise InputError(f"kernel={name!r} {what}; it has: {listed}.")


def _argument(value: Any, parameter: Parameter, memory: GlobalMemory) -> bytes:
    """The bytes of one parameter."""
    size, kind = parameter.nbytes, parameter.kind
    if value is None:
        return bytes(size)
    if isinstance(value, np.ndarray) and value.ndim:
        if size != 8:
            raise InputError(f"{parameter.name} takes {size} bytes; an array needs a pointer.")
        if not (value.flags.c_contiguous and value.flags.writeable):
            raise InputError(f"the array for {parameter.name} must be C-contiguous and writeable.")
        return memory.allocate(value, parameter.name).to_bytes(8, "little")
    if isinstance(value, (bytes, np.void)):
        raw = value if isinstance(value, bytes) else value.tobytes()
    elif kind in ("f32", "f64"):
        raw = np.array(value, f"f{size}").tobytes()
    elif isinstance(value, (float, np.floating)):
        raise InputError(f"{parameter.name} is an integer of {size} bytes, not {value!r}.")
    else:
        raw = (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    if len(raw) != size:
        raise InputError(f"{parameter.name} takes {size} bytes, not {len(raw)}.")
    return raw


def _pack(kernel: Kernel, params: Sequence[bytes]) -> bytes:
    """All parameters at their offsets in .param space."""
    if len(params) != len(kernel.params):
        raise InputError(f"{kernel.name} takes {len(kernel.params)} parameters, not {len(params)}.")
    packed = bytearray()
    for raw, parameter in zip(params, kernel.params, strict=True):
        if len(raw) != parameter.nbytes:
            raise InputError(f"{parameter.name} takes {parameter.nbytes} bytes, not {len(raw)}.")
        packed = packed.ljust(parameter.offset, b"\0") + raw
    return bytes(packed)
