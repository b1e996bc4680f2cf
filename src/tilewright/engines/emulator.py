"""The emulator as an engine, and `tilewright.emulate` for any kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.emulator.arguments import argument_bytes, pack
from tilewright.emulator.arrays import POISON
from tilewright.emulator.compiler import Program, compile_kernel
from tilewright.emulator.machine import Shape
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.parse import parse
from tilewright.emulator.run import Progress, run
from tilewright.errors import InputError, UnsupportedError
from tilewright.gpus import GPUS, Gpu
from tilewright.kernel_source import compiled, is_ptx, kernel_named, read_source
from tilewright.launch import BLOCK_LIMITS, GRID_LIMITS, Dim3, Launch, dim3

if TYPE_CHECKING:
    from pathlib import Path

    from tilewright.emulator.ir import Kernel, Module
    from tilewright.emulator.report import Report
    from tilewright.engines.base import Buffer

MOST_THREADS = 1024  # of a block


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
        self._modules: dict[str, Module] = {}
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
        if launch.cluster != (1, 1, 1):
            raise UnsupportedError(f"cluster={launch.cluster}: the emulator has no clusters yet.")
        key = launch.artifact.key
        if key not in self._modules:  # parsed once, so that its kernels share its variables
            self._modules[key] = parse(launch.artifact.ptx)
        if (key, launch.kernel) not in self._programs:
            module = self._modules[key]
            found = kernel_named(module, launch.kernel)
            self._programs[key, launch.kernel] = compile_kernel(module, found)
        program = self._programs[key, launch.kernel]
        check_threads(program.kernel, launch.block)
        _check_shared(program, launch.shared_bytes)
        shape = Shape(
            launch.grid, launch.block, launch.shared_bytes, pack(program.kernel, launch.params)
        )
        return run(program, shape, self._memory, self.progress)


def emulate(
    source: str | Path,
    kernel: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    *,
    cluster: Sequence[int] = (1, 1, 1),
    shared_bytes: int = 0,
    arch: str = "sm_80",
    defines: Mapping[str, object] | None = None,
    include_path: Sequence[str] = (),
    schedule: str = "lockstep",
    seed: int = 0,
    blocks: object = None,
    checks: bool = True,
    shapes: object = None,
) -> Report:
    """Runs one launch of a kernel in the emulator and reports counts and findings.

    Shapes   `grid` and `block` have 1 to 3 extents. `args` bind by position to the parameters.
    Types    `source` is CUDA C++ or PTX, as text or as the path of a .cu or .ptx file. An
             argument is a C-contiguous NumPy array (changed in place), a number (takes the
             parameter's size), bytes or a NumPy void for a struct by value, or None for null.
             `kernel` is a symbol, or a C++ name that only one symbol was mangled from.
             `cluster`, `schedule`, `seed`, `blocks`, `checks` and `shapes` take their defaults
             alone so far: no clusters, all blocks in lockstep, bounds and alignment checked.
    Raises   InputError for arguments that don't fit; CompileError; UnsupportedError. Findings
             never raise.
    Cost     compiles with NVRTC unless `source` is PTX; then milliseconds a block and K step.
    """
    _check_defaults(
        cluster=(tuple(cluster), (1, 1, 1)),
        schedule=(schedule, "lockstep"),
        seed=(seed, 0),
        blocks=(blocks, None),
        checks=(checks, True),
        shapes=(shapes, None),
    )
    full_grid = dim3("grid", _extents("grid", grid), GRID_LIMITS)
    full_block = dim3("block", _extents("block", block), BLOCK_LIMITS)
    text, name = read_source(source)
    module = parse(text if is_ptx(text) else compiled(text, name, arch, defines, include_path))
    found = kernel_named(module, kernel)
    check_threads(found, full_block)
    _check_count(found, args)
    program = compile_kernel(module, found)
    _check_shared(program, shared_bytes)
    memory = GlobalMemory()
    params = tuple(
        argument_bytes(value, parameter, memory)
        for value, parameter in zip(args, found.params, strict=True)
    )
    return run(program, Shape(full_grid, full_block, shared_bytes, pack(found, params)), memory)


def _check_defaults(**options: tuple[object, object]) -> None:
    """Raises UnsupportedError for an option that another value would ask more of than there is."""
    for name, (value, default) in options.items():
        if value != default:
            raise UnsupportedError(f"{name}={value!r} is not modelled yet; use {default!r}.")


def _extents(what: str, extents: Sequence[int]) -> list[int]:
    """A grid or block as integers; True, 1.5 and "32" are not."""
    try:
        values = [index(extent) for extent in extents]
    except TypeError:
        raise InputError(f"{what}={extents!r} must be 1 to 3 integers, as (32, 8).") from None
    return values


def _check_count(kernel: Kernel, args: Sequence[Any]) -> None:
    if isinstance(args, (str, bytes, np.ndarray)) or not isinstance(args, Sequence):
        raise InputError(f"args is a {type(args).__name__}; give a list, one value a parameter.")
    if len(args) != len(kernel.params):
        raise InputError(
            f"args has {len(args)} values; {kernel.name} takes {len(kernel.params)} parameters."
        )


def check_threads(kernel: Kernel, block: Dim3) -> None:
    """What a GPU refuses to launch. Raises InputError."""
    threads = block[0] * block[1] * block[2]
    if threads > MOST_THREADS:
        raise InputError(f"block={block} has {threads} threads; CUDA allows {MOST_THREADS}.")
    if kernel.required_threads not in (None, block):
        raise InputError(f"block={block}: {kernel.name} needs {kernel.required_threads}.")
    if kernel.most_threads is not None and threads > kernel.most_threads:
        raise InputError(
            f"block={block} has {threads} threads; the launch bounds of {kernel.name} "
            f"allow {kernel.most_threads}."
        )


def _check_shared(program: Program, shared_bytes: int) -> None:
    """More shared memory than any known GPU gives a block is refused. Raises InputError."""
    most = max(gpu.shared_bytes_per_block for gpu in GPUS.values())
    static = program.static_shared_bytes
    if not hasattr(shared_bytes, "__index__") or not 0 <= shared_bytes <= most - static:
        raise InputError(
            f"shared_bytes={shared_bytes!r} must be 0 to {most - static}: "
            f"a block has at most {most} bytes, of which the kernel's own variables take {static}."
        )
