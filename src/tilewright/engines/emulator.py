"""The emulator as an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.emulator.arguments import pack
from tilewright.emulator.arrays import POISON
from tilewright.emulator.loaded import Loaded, loaded
from tilewright.emulator.machine_code import MachineCode
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.program import Program
from tilewright.emulator.report import Report, with_sources
from tilewright.emulator.run import Progress, run
from tilewright.emulator.trace import Shape
from tilewright.emulator.wgmma_log import said_of_wgmma
from tilewright.errors import InputError
from tilewright.gpus import GPUS, Gpu
from tilewright.kernel_source import kernel_named, plain_name
from tilewright.launch import Dim3, Launch
from tilewright.tensormap import TensorMap

if TYPE_CHECKING:
    from tilewright.emulator.ir import Kernel
    from tilewright.engines.base import Buffer

MOST_THREADS = 1024  # of a block
MOST_PEERS = 16  # blocks of a cluster on sm_90, beyond 8 where the kernel is told to allow it


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
        self.sms, self.shared_bytes_limit = gpu.sms, gpu.shared_bytes_per_block
        self.title = f"PTX emulator, counting for {gpu.title} ({gpu.arch})"
        self.progress = progress
        self._memory = GlobalMemory()
        self._modules: dict[str, Loaded] = {}

    def upload(self, array: npt.NDArray[Any]) -> EmulatorBuffer:
        """A C-contiguous copy of the array."""
        copy = np.array(array, order="C")
        return EmulatorBuffer(copy, self._memory.allocate(copy))

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> EmulatorBuffer:
        """Memory filled with 0xFF bytes: NaN in every floating type we use."""
        array = np.empty(shape, dtype)
        array.reshape(-1).view(np.uint8).fill(POISON)
        return EmulatorBuffer(array, self._memory.allocate(array, unset=True))

    def download(self, buffer: Buffer) -> npt.NDArray[Any]:
        if not isinstance(buffer, EmulatorBuffer):
            raise InputError(f"a {type(buffer).__name__} is not memory of the emulator; upload it.")
        return buffer.array.copy()

    def forget(self) -> None:
        """Drops all buffers, which otherwise live as long as the engine; kernels stay compiled."""
        self._memory = GlobalMemory()

    def encode(self, tensor_map: TensorMap) -> bytes:
        """The 128 bytes of a tensor map whose base is an address of this engine."""
        return self._memory.maps.token(tensor_map, self._memory)

    def launch(self, launch: Launch) -> Report:
        """Runs every block; raises EmulatorError for what is not modelled."""
        key = launch.artifact.key
        if key not in self._modules:  # one for all its kernels, which share its variables
            self._modules[key] = loaded(launch.artifact.ptx, owner=key)
        module = self._modules[key]
        program = module.program(kernel_named(module.module, launch.kernel))
        check_threads(program.kernel, launch.block)
        check_shared(program, launch.shared_bytes)
        shape = Shape(
            launch.grid,
            launch.block,
            launch.shared_bytes,
            pack(program.kernel, launch.filled(self.encode)),
            cluster_of(program.kernel, launch.grid, launch.cluster),
        )
        report = run(program, shape, self._memory, self.progress)
        report.findings.extend(said_of_wgmma(launch.artifact.log, program.kernel))
        return with_sources(
            report,
            {"<ptx>": launch.artifact.ptx},
            kernel=launch.kernel,
            grid=launch.grid,
            block=launch.block,
            machine_code=MachineCode(launch.artifact, program.kernel.name),
        )


def check_threads(kernel: Kernel, block: Dim3) -> None:
    """What a GPU refuses to launch. Raises InputError."""
    threads = block[0] * block[1] * block[2]
    if threads > MOST_THREADS:
        raise InputError(f"block={block} has {threads} threads; CUDA allows {MOST_THREADS}.")
    if kernel.required_threads not in (None, block):
        raise InputError(
            f"block={block}: {plain_name(kernel.name)} needs {kernel.required_threads}."
        )
    if kernel.most_threads is not None and threads > kernel.most_threads:
        raise InputError(
            f"block={block} has {threads} threads; the launch bounds of {plain_name(kernel.name)} "
            f"allow {kernel.most_threads}."
        )


def cluster_of(kernel: Kernel, grid: Dim3, cluster: Dim3) -> Dim3:
    """The cluster that a launch has: what the kernel was compiled for, where it says so.

    Raises: InputError for one that the kernel or the grid does not take.
    """
    required = kernel.required_cluster
    if required is not None and cluster not in ((1, 1, 1), required):
        raise InputError(
            f"cluster={cluster}: {plain_name(kernel.name)} was compiled for {required}; give that, "
            "or leave it out."
        )
    cluster = required or cluster
    blocks = cluster[0] * cluster[1] * cluster[2]
    if blocks > MOST_PEERS:
        raise InputError(f"cluster={cluster} has {blocks} blocks; a GPU takes {MOST_PEERS}.")
    for axis, extent, size in zip("xyz", grid, cluster, strict=True):
        if extent % size:
            raise InputError(
                f"grid.{axis}={extent} must be a multiple of cluster.{axis}={size}: a grid counts "
                "blocks, and holds whole clusters."
            )
    return cluster


def check_shared(program: Program, shared_bytes: int) -> None:
    """More shared memory than any known GPU gives a block is refused. Raises InputError."""
    most = max(gpu.shared_bytes_per_block for gpu in GPUS.values())
    static = program.static_shared_bytes
    if not hasattr(shared_bytes, "__index__") or not 0 <= shared_bytes <= most - static:
        raise InputError(
            f"shared_bytes={shared_bytes!r} must be 0 to {most - static}: "
            f"a block has at most {most} bytes, of which the kernel's own variables take {static}."
        )
