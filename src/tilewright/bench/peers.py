"""The rivals of the GPU tables: PyTorch's matmul and cuBLAS called as the seed article does.

A peer works in the engine's own buffers and on its stream, so that it is timed like a kernel of
ours. One that is not installed is left out, with the reason.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import importlib.util
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from tilewright.errors import EngineError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tilewright.dtypes import DType
    from tilewright.engines.base import Buffer
    from tilewright.engines.gpu import GpuEngine

    Enqueue = Callable[[int], None]

T = TypeVar("T")

CUBLAS_WORKSPACE_BYTES = 32 * 1024 * 1024
_CUBLAS_COMPUTE_32F = 68
_CUBLAS_GEMM_DEFAULT = -1
_CUDA_TYPES = {"fp16": 2, "bf16": 14}  # CUDA_R_16F, CUDA_R_16BF
_TORCH_TYPES = {"fp16": "float16", "bf16": "bfloat16"}
_LAYOUTS = ("nn", "nt", "tn", "tt")


class GemmProblem(Protocol):
    """What a peer must know: C[m, n] = A[m, k] · B[k, n], C row-major.

    `layout` says for A and B in turn whether it lies as written (n) or transposed (t): "nt" is B
    stored [n, k], as in torch.nn.Linear.
    """

    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def layout(self) -> str: ...
    @property
    def dtype(self) -> DType: ...


class Peer(Protocol):
    """A rival. `version` names the library's, "2.11.0+cu130"."""

    name: str
    version: str

    def bind(
        self,
        buffers_a: Sequence[Buffer],
        buffers_b: Sequence[Buffer],
        buffers_c: Sequence[Buffer],
        problem: GemmProblem,
    ) -> Enqueue:
        """A function that enqueues run number i, on the i-th buffers counted around."""
        ...


def found_peers(engine: GpuEngine) -> tuple[list[Peer], list[str]]:
    """The peers that work here, and for each of the others one sentence saying why not."""
    peers: list[Peer] = []
    reasons: list[str] = []
    for name, make in (("torch", TorchPeer), ("hgemm_cublas", CublasPeer)):
        try:
            peers.append(make(engine))
        except EngineError as error:
            reasons.append(f"{name} is left out: {error}")
    return peers, reasons


# --- PyTorch ------------------------------------------------------------------------------


class TorchPeer:
    """torch.mm(a, b, out=c) on the engine's memory and stream.

    Raises: EngineError when torch is missing or sees no GPU.
    """

    def __init__(self, engine: GpuEngine) -> None:
        self.name = "torch"
        self._torch = torch = _import_torch()
        self.version = str(torch.__version__)
        self._device = f"cuda:{engine.ordinal}"
        self._stream = torch.cuda.ExternalStream(engine.stream, device=self._device)

    def bind(
        self,
        buffers_a: Sequence[Buffer],
        buffers_b: Sequence[Buffer],
        buffers_c: Sequence[Buffer],
        problem: GemmProblem,
    ) -> Enqueue:
        shapes = stored_shapes(problem)
        flip_a, flip_b = (letter == "t" for letter in problem.layout)
        a = [self._matrix(buffer, shapes[0], problem.dtype, flip_a) for buffer in buffers_a]
        b = [self._matrix(buffer, shapes[1], problem.dtype, flip_b) for buffer in buffers_b]
        c = [self._matrix(buffer, shapes[2], problem.dtype, False) for buffer in buffers_c]

        def enqueue(run: int) -> None:
            with self._torch.cuda.stream(self._stream):
                self._torch.mm(a[run % len(a)], b[run % len(b)], out=c[run % len(c)])

        return enqueue

    def _matrix(self, buffer: Buffer, shape: tuple[int, int], dtype: DType, flip: bool) -> Any:
        raw = self._torch.as_tensor(_DeviceWords(buffer, shape), device=self._device)
        if raw.data_ptr() != buffer.address:
            raise EngineError("torch copied a buffer instead of using it; its result is not ours.")
        matrix = raw.view(getattr(self._torch, _named(_TORCH_TYPES, dtype)))
        return matrix.t() if flip else matrix


class _DeviceWords:
    """A buffer as 16-bit integers for torch: the CUDA array interface has no word for bf16."""

    def __init__(self, buffer: Buffer, shape: tuple[int, int]) -> None:
        self._buffer = buffer  # torch keeps this object, and so the memory
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": "<i2",
            "data": (buffer.address, False),
            "strides": None,
            "version": 2,
        }


def _import_torch() -> Any:
    if importlib.util.find_spec("torch") is None:
        raise EngineError("it is not installed: pip install 'tilewright[torch]'.")
    try:
        torch = importlib.import_module("torch")
    except (ImportError, OSError) as error:
        raise EngineError(f"torch cannot be imported: {error}.") from None
    if not torch.cuda.is_available():
        raise EngineError(f"torch {torch.__version__} sees no GPU; install a build with CUDA.")
    torch.cuda.init()
    return torch


# --- cuBLAS -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnMajorCall:
    """The extents and leading dimensions of a cublasGemmEx whose first operand is our B."""

    transpose_first: bool
    transpose_second: bool
    m: int
    n: int
    k: int
    ld_first: int
    ld_second: int
    ld_c: int


def column_major_call(m: int, n: int, k: int, layout: str) -> ColumnMajorCall:
    """Row-major C = A·B as cuBLAS computes it, column-major: Cᵀ = Bᵀ·Aᵀ.

    The same bytes read column-major are the transpose, so operands and m, n change places and
    a matrix is transposed for cuBLAS exactly when it lies transposed for us.
    Raises: InputError for an unknown layout.
    """
    _check_layout(layout)
    a_flipped, b_flipped = (letter == "t" for letter in layout)
    return ColumnMajorCall(
        transpose_first=b_flipped,
        transpose_second=a_flipped,
        m=n,
        n=m,
        k=k,
        ld_first=k if b_flipped else n,
        ld_second=m if a_flipped else k,
        ld_c=n,
    )


def stored_shapes(problem: GemmProblem) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """The row-major shapes in which A, B and C lie in memory."""
    _check_layout(problem.layout)
    m, n, k = problem.m, problem.n, problem.k
    a = (k, m) if problem.layout[0] == "t" else (m, k)
    b = (n, k) if problem.layout[1] == "t" else (k, n)
    return a, b, (m, n)


def _named(names: dict[str, T], dtype: DType) -> T:
    if dtype.name not in names:
        raise InputError(f"dtype={dtype.name} has no peer; measure one of {', '.join(names)}.")
    return names[dtype.name]


def _check_layout(layout: str) -> None:
    if layout not in _LAYOUTS:
        raise InputError(f"layout={layout!r} must be one of {', '.join(_LAYOUTS)}.")


class CublasPeer:
    """cublasGemmEx with fp32 accumulation and an explicit workspace of 32 MiB.

    Raises: EngineError when the library is missing or a call fails.
    Source: cuBLAS library documentation, cublasGemmEx, cublasSetWorkspace; cublas_api.h and
    library_types.h for the numbers of the enumerations.
    """

    def __init__(self, engine: GpuEngine) -> None:
        self.name = "hgemm_cublas"
        self._library = _load_cublas()
        engine.context.enter()
        self._handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        weakref.finalize(self, self._library.cublasDestroy_v2, self._handle).atexit = False
        number = ctypes.c_int()
        self._call("cublasGetVersion_v2", self._handle, ctypes.byref(number))
        self.version = cublas_version(number.value)
        self._workspace = engine.empty((CUBLAS_WORKSPACE_BYTES,), np.dtype("u1"))
        # In this order: setting the stream puts the default workspace back.
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(engine.stream))
        self._call(
            "cublasSetWorkspace_v2",
            self._handle,
            ctypes.c_void_p(self._workspace.address),
            ctypes.c_size_t(CUBLAS_WORKSPACE_BYTES),
        )
        self._one, self._zero = ctypes.c_float(1), ctypes.c_float(0)

    def bind(
        self,
        buffers_a: Sequence[Buffer],
        buffers_b: Sequence[Buffer],
        buffers_c: Sequence[Buffer],
        problem: GemmProblem,
    ) -> Enqueue:
        kind = _named(_CUDA_TYPES, problem.dtype)
        call = column_major_call(problem.m, problem.n, problem.k, problem.layout)

        def enqueue(run: int) -> None:
            a, b, c = (each[run % len(each)] for each in (buffers_a, buffers_b, buffers_c))
            self._gemm(call, kind, b.address, a.address, c.address)

        return enqueue

    def _gemm(self, call: ColumnMajorCall, kind: int, first: int, second: int, out: int) -> None:
        pointer, integer = ctypes.c_void_p, ctypes.c_int
        self._call(
            "cublasGemmEx",
            self._handle,
            integer(call.transpose_first),  # CUBLAS_OP_N is 0, CUBLAS_OP_T is 1
            integer(call.transpose_second),
            *map(integer, (call.m, call.n, call.k)),
            ctypes.byref(self._one),
            *(pointer(first), integer(kind), integer(call.ld_first)),
            *(pointer(second), integer(kind), integer(call.ld_second)),
            ctypes.byref(self._zero),
            *(pointer(out), integer(kind), integer(call.ld_c)),
            *(integer(_CUBLAS_COMPUTE_32F), integer(_CUBLAS_GEMM_DEFAULT)),
        )

    def _call(self, function: str, *args: Any) -> None:
        status = getattr(self._library, function)(*args)
        if status != 0:
            raise EngineError(f"{function} failed with cublasStatus_t {status}.")


def cublas_version(number: int) -> str:
    """130100 is "13.1.0": major, minor and patch as cublasGetVersion packs them."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _load_cublas() -> ctypes.CDLL:
    """The library that torch or pip brought, or the system's. Raises: EngineError."""
    path: str | None
    try:
        path = importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib("cublas").abs_path
    except Exception:  # not installed, or pathfinder is missing or does not know this system
        path = ctypes.util.find_library("cublas")
    if not path:
        raise EngineError("libcublas was not found: pip install nvidia-cublas.")
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise EngineError(f"libcublas cannot be loaded: {error}.") from None
