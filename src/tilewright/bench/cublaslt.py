"""cuBLASLt as two rivals: its own first choice, and the fastest of all that it proposes.

The numbers of the enumerations are those of cublasLt.h, cublas_api.h and library_types.h in
cuBLAS 13.1 (nvidia-cublas 13.1.1.3, read 2026-11-30).
"""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.bench.choice import fastest
from tilewright.bench.cublas import (
    CUDA_TYPES,
    ColumnMajorCall,
    column_major_call,
    compute_type,
    cublas_version,
    load,
)
from tilewright.bench.cublaslt_names import Algorithm
from tilewright.bench.peers import Bound, named
from tilewright.errors import EngineError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.bench.peers import Enqueue, GemmProblem
    from tilewright.engines.base import Buffer
    from tilewright.engines.gpu import GpuEngine

WORKSPACE_BYTES = 64 * 1024 * 1024
REQUESTED = 48  # heuristic results asked for

_MIB = 1024 * 1024
_NOT_SUPPORTED = 15  # CUBLAS_STATUS_NOT_SUPPORTED
_CUDA_R_32F = 0
_DESC_TRANSA, _DESC_TRANSB = 3, 4
_PREF_MAX_WORKSPACE_BYTES = 1
_PREF_REDUCTION_SCHEME_MASK = 3
_REDUCE_IN_FP32 = 2  # CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
_PREF_MIN_ALIGNMENT = (5, 6, 7, 8)  # of A, B, C and D
_LARGEST_ALIGNMENT = 256  # bytes; the preference's own default

# cublasLtMatmulAlgoConfigAttributes_t by our fields, with the C type that the header names.
_CONFIG: dict[str, tuple[int, Any]] = {
    "ident": (0, ctypes.c_int32),
    "tile": (1, ctypes.c_uint32),
    "split_k": (2, ctypes.c_int32),
    "reduction": (3, ctypes.c_uint32),
    "swizzle": (4, ctypes.c_uint32),
    "option": (5, ctypes.c_uint32),
    "stages": (6, ctypes.c_uint32),
    "inner": (7, ctypes.c_uint16),
    "cluster": (8, ctypes.c_uint16),
}


# --- What cuBLASLt is told ----------------------------------------------------------------


@dataclass(frozen=True)
class MatrixShape:
    """A column-major matrix as it lies: rows, columns and the distance of two columns."""

    rows: int
    columns: int
    ld: int


def matrix_shapes(call: ColumnMajorCall) -> tuple[MatrixShape, MatrixShape, MatrixShape]:
    """The first and the second operand before transposition, and the result."""
    first = (call.k, call.m) if call.transpose_first else (call.m, call.k)
    second = (call.n, call.k) if call.transpose_second else (call.k, call.n)
    return (
        MatrixShape(*first, call.ld_first),
        MatrixShape(*second, call.ld_second),
        MatrixShape(call.m, call.n, call.ld_c),
    )


def alignment(addresses: Sequence[int]) -> int:
    """The bytes, a power of two up to 256, that divide every address."""
    together = _LARGEST_ALIGNMENT
    for address in addresses:
        together |= address
    return together & -together


# --- What it answers ----------------------------------------------------------------------


class HeuristicResult(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t; `algo` is opaque."""

    _fields_ = [
        ("algo", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


def version_text(library: str, algorithm: Algorithm, how: str, workspace_bytes: int) -> str:
    """What a record says of the rival: "13.1.0, algo 66 …; workspace 64 MiB; best of 37"."""
    return f"{library}, {algorithm}; workspace {workspace_bytes // _MIB} MiB; {how}"


# --- The peers ----------------------------------------------------------------------------


def lt_first(engine: GpuEngine) -> LtPeer:
    """cuBLASLt's first heuristic result. Raises: EngineError without the library."""
    return LtPeer(engine, "lt_first")


def lt_best(engine: GpuEngine) -> LtPeer:
    """The fastest of up to 48 heuristic results. Raises: EngineError without the library."""
    return LtPeer(engine, "lt_best")


class LtPeer:
    """cublasLtMatmul, fp32 accumulation, in the engine's memory and stream.

    `name` is "lt_first" or "lt_best". What `bind` says of the version names the library's, the
    algorithm, the workspace and how many algorithms there were.
    Types: bf16, fp16, tf32 or fp32 operands and result; fp32 without TF32.
    Raises: EngineError when the library is missing, a call fails (with its cublasStatus_t) or
    there is no algorithm for a shape.
    Cost: `bind` of "lt_best" times all algorithms: 2 to 5 s, and overwrites the C buffers.
    Source: cuBLAS library documentation, "Using the cuBLASLt API".
    """

    def __init__(self, engine: GpuEngine, name: str) -> None:
        if name not in ("lt_first", "lt_best"):
            raise InputError(f"name={name!r} must be lt_first or lt_best.")
        self.name = name
        self._engine = engine
        self._library = library = _Library(load("cublasLt"))
        engine.context.enter()
        self._handle = library.create("cublasLtCreate", "cublasLtDestroy", self)
        self._number = cublas_version(library.version())
        self._workspace = engine.empty((WORKSPACE_BYTES,), np.dtype("u1"))

    def bind(
        self,
        buffers_a: Sequence[Buffer],
        buffers_b: Sequence[Buffer],
        buffers_c: Sequence[Buffer],
        problem: GemmProblem,
    ) -> Bound:
        self._engine.context.enter()
        operands = (buffers_b, buffers_a, buffers_c)  # Cᵀ = Bᵀ·Aᵀ
        plan = _Plan(self._library, problem)
        results = plan.heuristics(self._handle, [alignment(_addresses(each)) for each in operands])
        runs = [self._run(plan, result, operands) for result in results]
        place, how = 0, f"first of {len(results)}"
        if self.name == "lt_best":
            place, ran = fastest(runs, self._engine, len(buffers_c))
            how = f"best of {ran}"
        algorithm = self._library.describe(results[place])
        version = version_text(self._number, algorithm, how, WORKSPACE_BYTES)
        return Bound(runs[place], version)

    def _run(
        self, plan: _Plan, result: HeuristicResult, operands: tuple[Sequence[Buffer], ...]
    ) -> Enqueue:
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        workspace = (ctypes.c_void_p(self._workspace.address), ctypes.c_size_t(WORKSPACE_BYTES))
        stream = ctypes.c_void_p(self._engine.stream)

        def enqueue(run: int) -> None:
            b, a, c = (ctypes.c_void_p(each[run % len(each)].address) for each in operands)
            first, second, out = plan.layouts
            self._library(
                "cublasLtMatmul",
                *(self._handle, plan.operation),
                *(ctypes.byref(one), b, first, a, second),
                *(ctypes.byref(zero), c, out, c, out),
                *(ctypes.byref(result.algo), *workspace, stream),
            )

        return enqueue


class _Plan:
    """The descriptors of one problem, destroyed with it."""

    def __init__(self, library: _Library, problem: GemmProblem) -> None:
        self._library = library
        self._problem = problem
        call = column_major_call(problem.m, problem.n, problem.k, problem.layout)
        kind = ctypes.c_int(named(CUDA_TYPES, problem.dtype))
        integer = ctypes.c_int
        self.operation = library.create(
            *("cublasLtMatmulDescCreate", "cublasLtMatmulDescDestroy", self),
            *(integer(compute_type(problem.dtype)), integer(_CUDA_R_32F)),
        )
        flips = ((_DESC_TRANSA, call.transpose_first), (_DESC_TRANSB, call.transpose_second))
        for attribute, flip in flips:  # CUBLAS_OP_N is 0, CUBLAS_OP_T is 1
            library.set("cublasLtMatmulDesc", self.operation, attribute, integer(flip))
        self.layouts = [
            library.create(
                *("cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutDestroy", self),
                *(kind, ctypes.c_uint64(it.rows), ctypes.c_uint64(it.columns)),
                ctypes.c_int64(it.ld),
            )
            for it in matrix_shapes(call)
        ]

    def heuristics(self, handle: Any, aligned: Sequence[int]) -> list[HeuristicResult]:
        """Up to REQUESTED results, the library's favourite first; `aligned` of operands and C.

        Raises: EngineError when there is none.
        """
        library = self._library
        preference = library.create(
            "cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceDestroy", self
        )
        wanted = [(_PREF_MAX_WORKSPACE_BYTES, ctypes.c_uint64(WORKSPACE_BYTES))]
        both = (*aligned, aligned[-1])  # C and D are one matrix
        # Split-K that adds up parts in bf16 errs more than one rounding: it would not be a rival.
        words = [(_PREF_REDUCTION_SCHEME_MASK, _REDUCE_IN_FP32)]
        words += zip(_PREF_MIN_ALIGNMENT, both, strict=True)
        for attribute, value in words:
            wanted.append((attribute, ctypes.c_uint32(value)))  # type: ignore[arg-type]
        for attribute, word in wanted:
            library.set("cublasLtMatmulPreference", preference, attribute, word)
        results, count = (HeuristicResult * REQUESTED)(), ctypes.c_int(0)
        first, second, out = self.layouts
        status = library.status(
            "cublasLtMatmulAlgoGetHeuristic",
            *(handle, self.operation, first, second, out, out, preference),
            *(ctypes.c_int(REQUESTED), results, ctypes.byref(count)),
        )
        if status not in (0, _NOT_SUPPORTED):
            raise EngineError(_failed("cublasLtMatmulAlgoGetHeuristic", status))
        usable = [result for result in list(results)[: count.value] if result.state == 0]
        if not usable:
            it = self._problem
            raise EngineError(
                f"cuBLASLt has no algorithm for {it.m}×{it.n}×{it.k} {it.layout} "
                f"{it.dtype.name} with a workspace of {WORKSPACE_BYTES // _MIB} MiB."
            )
        return usable


class _Library:
    """libcublasLt with one way to call and one way to fail."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def __call__(self, function: str, *args: Any) -> None:
        if (status := self.status(function, *args)) != 0:
            raise EngineError(_failed(function, status))

    def status(self, function: str, *args: Any) -> int:
        return int(getattr(self._library, function)(*args))

    def version(self) -> int:
        function = self._library.cublasLtGetVersion
        function.restype = ctypes.c_size_t
        return int(function())

    def create(self, make: str, destroy: str, owner: object, *args: Any) -> ctypes.c_void_p:
        """A handle that lives as long as its owner."""
        handle = ctypes.c_void_p()
        self(make, ctypes.byref(handle), *args)
        weakref.finalize(owner, getattr(self._library, destroy), handle).atexit = False
        return handle

    def set(self, kind: str, handle: ctypes.c_void_p, attribute: int, value: Any) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self(f"{kind}SetAttribute", handle, ctypes.c_int(attribute), ctypes.byref(value), size)

    def describe(self, result: HeuristicResult) -> Algorithm:
        found = {}
        for name, (attribute, kind) in _CONFIG.items():
            value, written = kind(), ctypes.c_size_t()
            self(
                "cublasLtMatmulAlgoConfigGetAttribute",
                *(ctypes.byref(result.algo), ctypes.c_int(attribute), ctypes.byref(value)),
                *(ctypes.c_size_t(ctypes.sizeof(value)), ctypes.byref(written)),
            )
            found[name] = int(value.value)
        return Algorithm(**found)


def _addresses(buffers: Sequence[Buffer]) -> list[int]:
    return [buffer.address for buffer in buffers]


def _failed(function: str, status: int) -> str:
    return f"{function} failed with cublasStatus_t {status}."
