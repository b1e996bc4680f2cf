"""cuBLASLt as two rivals: its own first choice, and the fastest of all that it proposes.

The numbers of the enumerations are those of cublasLt.h, cublas_api.h and library_types.h in
cuBLAS 13.1 (nvidia-cublas 13.1.1.3, read 2026-11-30).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.bench.cublaslt_names import Algorithm
from tilewright.bench.peers import (
    ColumnMajorCall,
    column_major_call,
    cublas_version,
)
from tilewright.bench.protocol import Candidate, Settings, measure
from tilewright.errors import EngineError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tilewright.bench.peers import Enqueue, GemmProblem
    from tilewright.bench.protocol import Timer, Timing
    from tilewright.engines.base import Buffer
    from tilewright.engines.gpu import GpuEngine

WORKSPACE_BYTES = 64 * 1024 * 1024
REQUESTED = 48  # heuristic results asked for
FINALISTS = 6

_MIB = 1024 * 1024
_NOT_SUPPORTED = 15  # CUBLAS_STATUS_NOT_SUPPORTED
_COMPUTE_32F = 68
_CUDA_R_32F = 0
_CUDA_TYPES = {"fp16": 2, "bf16": 14}  # CUDA_R_16F, CUDA_R_16BF
_DESC_TRANSA, _DESC_TRANSB = 3, 4
_PREF_MAX_WORKSPACE_BYTES = 1
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
# Screening sorts out what is far behind; the final has intervals long enough for a GPU at its
# power cap to take each finalist's own clock.
_SCREENING = Settings(rounds=3, round_us=2_000.0, warmup_us=0.0, lead_in_us=1_000.0)
_FINAL = Settings(rounds=9, round_us=8_000.0, warmup_us=20_000.0, lead_in_us=30_000.0)


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


# --- Which one is fastest -----------------------------------------------------------------


def finalists(us: Sequence[float], count: int = FINALISTS) -> list[int]:
    """The places of the `count` fastest, and always the first's, which comes first."""
    order = sorted(range(1, len(us)), key=lambda place: us[place])
    ahead = [place for place in order if us[place] < us[0]]
    behind = [place for place in order if us[place] >= us[0]]
    return [0, *(ahead + behind)[: count - 1]]


def winner(timings: Sequence[Timing]) -> int:
    """The place of the one most often ahead of the first, or 0 where none is.

    Judged by the median of the rounds' ratios, so that a drifting clock favours nobody.
    """
    ratios = [timing.ratio(timings[0]) for timing in timings]
    best = max(range(len(timings)), key=lambda place: ratios[place])
    return best if ratios[best] > 1 else 0


def fastest(runs: Sequence[Callable[[int], None]], timer: Timer, sets: int) -> tuple[int, int]:
    """The place of the fastest of `runs`, and how many of them ran.

    A run that fails with EngineError is left out. The first must not fail.
    Raises: EngineError when the first fails or the GPU does.
    Cost: about 20 ms for each, and 0.5 s for each finalist.
    """
    places = []
    for place, run in enumerate(runs):
        try:
            run(0)
        except EngineError:
            if place == 0:
                raise
            continue
        places.append(place)
    if len(places) == 1:
        return 0, 1
    screened = _measured(places, runs, timer, replace(_SCREENING, sets=sets))
    left = [places[i] for i in finalists([timing.us for timing in screened])]
    final = _measured(left, runs, timer, replace(_FINAL, sets=sets))
    return left[winner(final)], len(places)


def _measured(
    places: Sequence[int],
    runs: Sequence[Callable[[int], None]],
    timer: Timer,
    settings: Settings,
) -> list[Timing]:
    """Under graph replay: launched one by one, short runs would wait for the host."""
    return measure([Candidate(f"algorithm {i}", runs[i]) for i in places], timer, settings)


# --- The peers ----------------------------------------------------------------------------


def lt_first(engine: GpuEngine) -> LtPeer:
    """cuBLASLt's first heuristic result. Raises: EngineError without the library."""
    return LtPeer(engine, "lt_first")


def lt_best(engine: GpuEngine) -> LtPeer:
    """The fastest of up to 48 heuristic results. Raises: EngineError without the library."""
    return LtPeer(engine, "lt_best")


class LtPeer:
    """cublasLtMatmul, fp32 accumulation, in the engine's memory and stream.

    `name` is "lt_first" or "lt_best". `version` is the library's until `bind`; then it names the
    algorithm bound last, the workspace and how many algorithms there were.
    Types: bf16 or fp16 operands and result.
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
        self._library = library = _Library(_load())
        engine.context.enter()
        self._handle = library.create("cublasLtCreate", "cublasLtDestroy", self)
        self._number = cublas_version(library.version())
        self.version = self._number
        self._workspace = engine.empty((WORKSPACE_BYTES,), np.dtype("u1"))

    def bind(
        self,
        buffers_a: Sequence[Buffer],
        buffers_b: Sequence[Buffer],
        buffers_c: Sequence[Buffer],
        problem: GemmProblem,
    ) -> Enqueue:
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
        self.version = version_text(self._number, algorithm, how, WORKSPACE_BYTES)
        return runs[place]

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
        if problem.dtype.name not in _CUDA_TYPES:
            known = ", ".join(_CUDA_TYPES)
            raise InputError(f"dtype={problem.dtype.name} has no peer; measure one of {known}.")
        self._library = library
        self._problem = problem
        call = column_major_call(problem.m, problem.n, problem.k, problem.layout)
        kind = ctypes.c_int(_CUDA_TYPES[problem.dtype.name])
        integer = ctypes.c_int
        self.operation = library.create(
            *("cublasLtMatmulDescCreate", "cublasLtMatmulDescDestroy", self),
            *(integer(_COMPUTE_32F), integer(_CUDA_R_32F)),
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
        for attribute, value in zip(_PREF_MIN_ALIGNMENT, both, strict=True):
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


def _load() -> ctypes.CDLL:
    """The library that torch or pip brought, or the system's. Raises: EngineError."""
    path: str | None
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
        path = pathfinder.load_nvidia_dynamic_lib("cublasLt").abs_path
    except Exception:  # not installed, or pathfinder is missing or does not know this system
        path = ctypes.util.find_library("cublasLt")
    if not path:
        raise EngineError("libcublasLt was not found: pip install nvidia-cublas.")
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise EngineError(f"libcublasLt cannot be loaded: {error}.") from None
