"""The gpu engine: an NVIDIA GPU behind the seam of base.py.

All work goes to one stream of the engine's own, in order; nothing is imported or opened before
a `GpuEngine` is made.
"""

from __future__ import annotations

import ctypes
import weakref
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.parse import parse
from tilewright.engines import probe
from tilewright.engines.driver import Context, Driver, same_context
from tilewright.engines.tensor_maps import TensorMapEncoder
from tilewright.errors import EngineError, InputError
from tilewright.gpus import arch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from tilewright.build import Artifact
    from tilewright.engines.base import Buffer
    from tilewright.launch import Dim3, Launch

_POISON = 0xFF
_SHARED_BYTES_WITHOUT_OPT_IN = 48 * 1024
_PORTABLE_CLUSTER = 8  # blocks; larger clusters need an opt-in of their own


class GpuBuffer:
    """Memory of a GPU, freed when the last reference is dropped."""

    def __init__(self, context: Context, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.size_bytes = prod(shape) * dtype.itemsize
        self.address = context.allocate(self.size_bytes)
        # At interpreter exit the driver frees everything; calling it then is too late.
        weakref.finalize(self, context.free, self.address).atexit = False


class GpuEvent:
    """A point in the stream's work; GpuEngine.record makes it and elapsed_us reads two."""

    def __init__(self, driver: Driver, stream: int) -> None:
        self.handle = driver("cuEventCreate", 0)  # 0: with timing
        weakref.finalize(self, driver.quietly, "cuEventDestroy", self.handle).atexit = False
        driver("cuEventRecord", self.handle, stream)


class Replay:
    """A captured sequence of work. `nodes` is the number of operations one replay enqueues."""

    def __init__(self, engine: GpuEngine, graph: Any, work: Callable[[], None]) -> None:
        self._engine = engine
        self._work = work  # holds the buffers whose addresses the graph has
        driver = engine.call
        weakref.finalize(self, driver.quietly, "cuGraphDestroy", graph).atexit = False
        self.nodes = int(driver("cuGraphGetNodes", graph)[1])
        if self.nodes == 0:
            raise EngineError(
                "the capture holds no work: it was enqueued on another stream than the engine's."
            )
        self._exec = driver("cuGraphInstantiate", graph, 0)
        weakref.finalize(self, driver.quietly, "cuGraphExecDestroy", self._exec).atexit = False

    def replay(self) -> None:
        """Enqueues the captured work once. Cost: one graph launch, a few microseconds."""
        self._engine.context.enter()
        self._engine.call("cuGraphLaunch", self._exec, self._engine.stream)


@dataclass
class _Kernel:
    handle: Any
    param_bytes: tuple[int, ...]
    static_shared_bytes: int
    required_cluster: Dim3 | None = None
    granted: dict[str, int] = field(default_factory=dict)  # the opt-ins it has had so far


class GpuEngine:
    """The engine of GPU number `ordinal`, in the driver's order (CUDA_VISIBLE_DEVICES counts).

    Beyond base.Engine: `ordinal`, `gpu_name`, `driver` ("580.159.03"), `cuda` ("13.0", the
    newest CUDA the driver runs), `uuid` ("GPU-…"), `l2_bytes`, `stream` (the CUstream as an int),
    `encode` (a tensor map's 128 bytes), events and graph capture for the measuring protocol.
    Raises: EngineError without driver or GPU; InputError for an ordinal that does not exist and
    for a GPU older than sm_80.
    Cost: opening the first context of a process takes some tenths of a second.
    """

    def __init__(self, ordinal: int = 0) -> None:
        self.name = "gpu"
        self.ordinal = ordinal
        self.call = call = Driver()
        count = int(call("cuDeviceGetCount"))
        if not 0 <= ordinal < count:
            raise InputError(f"gpu ordinal={ordinal} must be 0..{count - 1}: {count} are visible.")
        self.context = context = Context(call, ordinal)
        context.enter()
        self.gpu_name = _text(call("cuDeviceGetName", 256, context.device))
        self.arch = arch_of(
            context.attribute("COMPUTE_CAPABILITY_MAJOR"),
            context.attribute("COMPUTE_CAPABILITY_MINOR"),
        )
        self.l2_bytes = context.attribute("L2_CACHE_SIZE")
        self.sms = context.attribute("MULTIPROCESSOR_COUNT")
        self.shared_bytes_limit = context.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self.uuid = _uuid_text(call("cuDeviceGetUuid", context.device).bytes)
        version = int(call("cuDriverGetVersion"))
        self.cuda = f"{version // 1000}.{version % 1000 // 10}"
        self.driver = probe.driver_version() or f"of CUDA {self.cuda}"
        self.title = f"{self.gpu_name}, driver {self.driver}"
        stream = call("cuStreamCreate", int(call.types.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.stream = int(stream)
        weakref.finalize(self, call.quietly, "cuStreamDestroy", stream).atexit = False
        self._modules: dict[str, Any] = {}
        self._kernels: dict[tuple[str, str], _Kernel] = {}
        self.encode = TensorMapEncoder(call).encode

    # --- Memory ---------------------------------------------------------------------------

    def upload(self, array: npt.NDArray[Any]) -> GpuBuffer:
        """A copy of the array on the GPU; returns once it is there. Types: any NumPy dtype."""
        self.context.enter()
        source = np.ascontiguousarray(array)
        buffer = GpuBuffer(self.context, array.shape, source.dtype)
        if buffer.size_bytes:
            size = buffer.size_bytes
            host = source.ctypes.data
            self.call("cuMemcpyHtoDAsync", buffer.address, host, size, self.stream)
            self.synchronize()
        return buffer

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> GpuBuffer:
        """Memory filled with 0xFF bytes, which are NaN in every floating type we use."""
        self.context.enter()
        buffer = GpuBuffer(self.context, tuple(int(extent) for extent in shape), np.dtype(dtype))
        self.refill(buffer)
        return buffer

    def refill(self, buffer: Buffer, byte: int = _POISON) -> None:
        """Fills the buffer with one byte again, 0xFF if none is given, in stream order, without
        waiting."""
        self.context.enter()
        size = _own(buffer).size_bytes
        if size:
            self.call("cuMemsetD8Async", buffer.address, byte, size, self.stream)

    def download(self, buffer: Buffer) -> npt.NDArray[Any]:
        """The buffer's contents, once all launches so far have finished.

        Raises: EngineError with the driver's error name when one of them faulted.
        """
        self.context.enter()
        size = _own(buffer).size_bytes
        array = np.empty(buffer.shape, buffer.dtype)
        self.synchronize()
        if size:
            host = array.ctypes.data
            self.call("cuMemcpyDtoHAsync", host, buffer.address, size, self.stream)
            self.synchronize()
        return array

    def peek(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """The bytes at a device address, whoever's they are, once this engine's work is done."""
        self.context.enter()
        array = np.empty(size, np.uint8)
        self.call("cuMemcpyDtoHAsync", array.ctypes.data, address, size, self.stream)
        self.synchronize()
        return array

    def free_bytes(self) -> int:
        """The GPU memory that is free now, in bytes."""
        self.context.enter()
        return int(self.call("cuMemGetInfo")[0])

    # --- Launching ------------------------------------------------------------------------

    def launch(self, launch: Launch, stream: int | None = None) -> None:
        """Enqueues the kernel on the engine's stream, or on another one of this GPU.

        Raises: InputError, before the launch, when the shared memory is above the GPU's limit,
        the grid is no whole number of clusters, the cluster is not the one that the kernel was
        compiled for, or the parameters have other sizes than the kernel's; EngineError when the
        driver refuses the module, the kernel, a tensor map or the launch, and for the first
        launch of an artifact, which loads its module, into a stream that is being captured.
        """
        self.context.enter()
        into = self.stream if stream is None else stream
        kernel = self._kernel(launch, into)
        _check_launch(launch, kernel, self.shared_bytes_limit, self.gpu_name)
        self._opt_in(launch, kernel)
        # create_string_buffer keeps the bytes, the array the pointers, until the call returns;
        # the driver copies the parameters before it does.
        filled = launch.filled(self.encode)
        values = [ctypes.create_string_buffer(raw, len(raw)) for raw in filled]
        pointers = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))
        config = _config(self.call.types, launch, into)
        address = ctypes.addressof(pointers)
        self.call("cuLaunchKernelEx", config, kernel.handle, address, 0)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """For work among a caller's: the thread keeps the GPU that it had."""
        with same_context(self.call):
            self.context.enter()
            yield

    def refuse_capture(self, stream: int, what: str) -> None:
        """Raises: EngineError, saying that this cannot be done, while the stream is captured."""
        if int(self.call("cuStreamIsCapturing", stream)):
            raise EngineError(f"{what} while a CUDA graph is captured: run it once before that.")

    def _kernel(self, launch: Launch, stream: int) -> _Kernel:
        key = (launch.artifact.key, launch.kernel)
        if key not in self._kernels:
            self.refuse_capture(stream, f"{launch.artifact.name} cannot be loaded")
            self._kernels[key] = self._load(launch)
        return self._kernels[key]

    def _load(self, launch: Launch) -> _Kernel:
        call, artifact = self.call, launch.artifact
        try:
            if artifact.key not in self._modules:
                self._modules[artifact.key] = call("cuModuleLoadData", artifact.cubin)
            module = self._modules[artifact.key]
            handle = call("cuModuleGetFunction", module, launch.kernel.encode())
        except EngineError as error:
            raise EngineError(
                f"kernel={launch.kernel!r} of a cubin for {artifact.arch} could not be loaded on "
                f"{self.title} ({self.arch}): {error}"
            ) from None

        def attribute(word: str) -> int:
            which = call.enum("CUfunction_attribute", f"CU_FUNC_ATTRIBUTE_{word}")
            return int(call("cuFuncGetAttribute", which, handle))

        sizes = (attribute(f"REQUIRED_CLUSTER_{side}") for side in ("WIDTH", "HEIGHT", "DEPTH"))
        x, y, z = sizes  # all 0 where the kernel leaves it to the launch
        return _Kernel(
            handle,
            _param_bytes(artifact, launch.kernel),
            attribute("SHARED_SIZE_BYTES"),
            (x, y, z) if x else None,
        )

    def _opt_in(self, launch: Launch, kernel: _Kernel) -> None:
        """Grants what a kernel must be allowed before its launch; again only to grant more."""
        wanted: dict[str, int] = {}
        if kernel.static_shared_bytes + launch.shared_bytes > _SHARED_BYTES_WITHOUT_OPT_IN:
            wanted["MAX_DYNAMIC_SHARED_SIZE_BYTES"] = launch.shared_bytes
        if prod(launch.cluster) > _PORTABLE_CLUSTER:
            wanted["NON_PORTABLE_CLUSTER_SIZE_ALLOWED"] = 1
        for word, value in wanted.items():
            if value > kernel.granted.get(word, 0):
                attribute = self.call.enum("CUfunction_attribute", f"CU_FUNC_ATTRIBUTE_{word}")
                self.call("cuFuncSetAttribute", kernel.handle, attribute, value)
                kernel.granted[word] = value

    # --- Time and graphs ------------------------------------------------------------------

    def record(self) -> GpuEvent:
        """Marks this point of the stream's work."""
        self.context.enter()
        return GpuEvent(self.call, self.stream)

    def elapsed_us(self, start: GpuEvent, end: GpuEvent) -> float:
        """Microseconds between two marks, once the later one is reached (waits for it)."""
        self.context.enter()
        self.call("cuEventSynchronize", end.handle)
        return float(self.call("cuEventElapsedTime", start.handle, end.handle)) * 1e3

    def wait(self, mark: GpuEvent) -> None:
        """Waits until the work reaches this mark."""
        self.context.enter()
        self.call("cuEventSynchronize", mark.handle)

    def synchronize(self) -> None:
        """Waits for all work so far. Raises: EngineError when a kernel faulted."""
        self.context.enter()
        self.call("cuStreamSynchronize", self.stream)

    def capture(self, work: Callable[[], None]) -> Replay:
        """Captures what `work` enqueues on the engine's stream, without running it.

        Run the same work once before: loading a module or allocating ends a capture.
        Raises: EngineError when the work cannot be captured or enqueued nothing here; the
        engine stays usable.
        """
        self.context.enter()
        call = self.call
        mode = call.enum("CUstreamCaptureMode", "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL")
        self.context.capturing = True
        try:
            call("cuStreamBeginCapture", self.stream, mode)
            try:
                work()
            except BaseException:
                call.quietly("cuStreamEndCapture", self.stream)
                raise
            graph = call("cuStreamEndCapture", self.stream)
        except EngineError:
            raise
        except Exception as error:  # whatever a library under `work` raises about capturing
            raise EngineError(f"the work cannot be captured in a graph: {error}") from error
        finally:
            self.context.end_capture()
        return Replay(self, graph, work)


def _own(buffer: Buffer) -> GpuBuffer:
    if not isinstance(buffer, GpuBuffer):
        raise InputError(f"a {type(buffer).__name__} is not memory of the gpu engine; upload it.")
    return buffer


def _check_launch(launch: Launch, kernel: _Kernel, limit_bytes: int, gpu_name: str) -> None:
    shared = kernel.static_shared_bytes + launch.shared_bytes
    if not 0 <= launch.shared_bytes <= shared <= limit_bytes:
        raise InputError(
            f"shared_bytes={launch.shared_bytes} and {kernel.static_shared_bytes} static bytes "
            f"must be at most {limit_bytes} together, the limit of a block on {gpu_name}."
        )
    if kernel.required_cluster not in (None, launch.cluster):
        raise InputError(
            f"cluster={launch.cluster} must be {kernel.required_cluster}, which "
            f"{launch.kernel} was compiled for."
        )
    for axis, blocks, cluster in zip("xyz", launch.grid, launch.cluster, strict=True):
        if cluster < 1 or blocks % cluster:
            raise InputError(
                f"grid.{axis}={blocks} must be a multiple of cluster.{axis}={cluster}; "
                "the grid counts blocks."
            )
    sizes = tuple(len(raw) for raw in launch.params)
    if sizes != kernel.param_bytes:
        raise InputError(
            f"params={sizes} bytes must be {kernel.param_bytes}, "
            f"the parameters of kernel {launch.kernel}."
        )


def _param_bytes(artifact: Artifact, kernel: str) -> tuple[int, ...]:
    """The size of each parameter, from the PTX: asking the driver ends in an error by design,
    which memory checkers report."""
    return tuple(parameter.nbytes for parameter in parse(artifact.ptx).kernels[kernel].params)


def _config(types: Any, launch: Launch, stream: int) -> Any:
    config = types.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
    config.sharedMemBytes = launch.shared_bytes
    config.hStream = types.CUstream(stream)
    attributes = []
    if launch.cluster != (1, 1, 1):
        attributes.append(_attribute(types, "CLUSTER_DIMENSION"))
        cluster = attributes[-1].value.clusterDim
        cluster.x, cluster.y, cluster.z = launch.cluster
    if launch.overlap:
        attributes.append(_attribute(types, "PROGRAMMATIC_STREAM_SERIALIZATION"))
        attributes[-1].value.programmaticStreamSerializationAllowed = 1
    if attributes:
        config.attrs = attributes
        config.numAttrs = len(attributes)
    return config


def _attribute(types: Any, word: str) -> Any:
    attribute = types.CUlaunchAttribute()
    attribute.id = getattr(types.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{word}")
    return attribute


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode()


def _uuid_text(raw: bytes) -> str:
    digits = raw.hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "GPU-" + "-".join(parts)
