"""cuBLAS called as the seed article does."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.bench.peers import Bound, check_layout, named, takes
from tilewright.errors import EngineError, InputError

if TYPE_CHECKING:
    from tilewright.bench.peers import GemmProblem
    from tilewright.dtypes import DType
    from tilewright.engines.base import Buffer
    from tilewright.engines.gpu import GpuEngine

CUBLAS_WORKSPACE_BYTES = 32 * 1024 * 1024
# CUDA_R_16F, CUDA_R_16BF, CUDA_R_32F
CUDA_TYPES = {"fp16": 2, "bf16": 14, "tf32": 0, "fp32": 0}
_COMPUTE_32F, _COMPUTE_32F_FAST_TF32 = 68, 77
_GEMM_DEFAULT = -1


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
    check_layout(layout)
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


def compute_type(dtype: DType) -> int:
    """The cublasComputeType_t with fp32 sums."""
    return _COMPUTE_32F_FAST_TF32 if dtype.name == "tf32" else _COMPUTE_32F


def hgemm_cublas(engine: GpuEngine) -> CublasPeer:
    """For bf16 and fp16. Raises: EngineError without the library."""
    return CublasPeer(engine, "hgemm_cublas")


def sgemm_cublas(engine: GpuEngine) -> CublasPeer:
    """For fp32 and tf32. Raises: EngineError without the library."""
    return CublasPeer(engine, "sgemm_cublas")


class CublasPeer:
    """cublasGemmEx with fp32 accumulation and an explicit workspace of 32 MiB.

    fp32 products are fp32's own: the handle keeps its default math mode, which uses no TF32;
    tf32 asks for it by the compute type.
    Raises: EngineError when the library is missing or a call fails.
    Source: cuBLAS library documentation, cublasGemmEx, cublasSetWorkspace; cublas_api.h and
    library_types.h for the numbers of the enumerations.
    """

    def __init__(self, engine: GpuEngine, name: str) -> None:
        self.name = name
        self._library = load("cublas")
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
    ) -> Bound:
        kinds = named(CUDA_TYPES, problem.dtype), compute_type(problem.dtype)
        if not takes(self.name, problem.dtype):
            raise InputError(f"{self.name} is no peer for dtype={problem.dtype.name}.")
        call = column_major_call(problem.m, problem.n, problem.k, problem.layout)

        def enqueue(run: int) -> None:
            a, b, c = (each[run % len(each)] for each in (buffers_a, buffers_b, buffers_c))
            self._gemm(call, kinds, b.address, a.address, c.address)

        return Bound(enqueue, self.version)

    def _gemm(
        self, call: ColumnMajorCall, kinds: tuple[int, int], first: int, second: int, out: int
    ) -> None:
        pointer, integer = ctypes.c_void_p, ctypes.c_int
        kind, compute = kinds
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
            *(integer(compute), integer(_GEMM_DEFAULT)),
        )

    def _call(self, function: str, *args: Any) -> None:
        status = getattr(self._library, function)(*args)
        if status != 0:
            raise EngineError(f"{function} failed with cublasStatus_t {status}.")


def cublas_version(number: int) -> str:
    """130100 is "13.1.0": major, minor and patch as cublasGetVersion packs them."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def load(name: str) -> ctypes.CDLL:
    """libcublas or libcublasLt as torch or pip brought it, or the system's. Raises: EngineError."""
    path: str | None
    try:
        path = importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib(name).abs_path
    except Exception:  # not installed, or pathfinder is missing or does not know this system
        path = ctypes.util.find_library(name)
    if not path:
        raise EngineError(f"lib{name} was not found: pip install nvidia-cublas.")
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise EngineError(f"lib{name} cannot be loaded: {error}.") from None
