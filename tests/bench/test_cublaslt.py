from __future__ import annotations

import ctypes
import ctypes.util
import importlib
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tilewright.bench import cublaslt
from tilewright.bench.cublas import column_major_call
from tilewright.bench.cublaslt import MatrixShape, alignment, matrix_shapes
from tilewright.bench.cublaslt_names import Algorithm, cluster_name, stages_name, tile_name
from tilewright.bench.protocol import Candidate, Settings, measure
from tilewright.dtypes import BF16, FP16, DType
from tilewright.engines import probe
from tilewright.errors import EngineError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable

M, N, K = 48, 80, 112
LAYOUTS = ("nn", "nt", "tn", "tt")


@dataclass(frozen=True)
class Problem:
    m: int = M
    n: int = N
    k: int = K
    layout: str = "nn"
    dtype: DType = FP16


# --- Pure ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "first", "second"),
    [
        ("nn", MatrixShape(N, K, N), MatrixShape(K, M, K)),
        ("nt", MatrixShape(K, N, K), MatrixShape(K, M, K)),
        ("tn", MatrixShape(N, K, N), MatrixShape(M, K, M)),
        ("tt", MatrixShape(K, N, K), MatrixShape(M, K, M)),
    ],
)
def test_matrices_as_they_lie_column_major(
    layout: str, first: MatrixShape, second: MatrixShape
) -> None:
    shapes = matrix_shapes(column_major_call(M, N, K, layout))
    assert shapes == (first, second, MatrixShape(N, M, N))


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [([4096], 256), ([4096, 4096 + 16], 16), ([256, 2], 2), ([384], 128), ([7], 1), ([], 256)],
)
def test_alignment_is_what_divides_every_address(addresses: list[int], expected: int) -> None:
    assert alignment(addresses) == expected


@pytest.mark.parametrize(
    ("number", "name"),
    [(1, "8x8"), (23, "128x256"), (35, "256x32"), (36, "8x128"), (116, "64x192"), (258, "360x128"),
     (360, "64x472"), (393, "128x8"), (416, "128x240"), (630, "768x80"), (631, "256x512"),
     (634, "512x1024"), (635, "#635"), (0, "#0")],
)  # fmt: skip
def test_tiles_by_the_header_s_numbers(number: int, name: str) -> None:
    assert tile_name(number) == name


def test_stages_and_clusters_by_the_header_s_numbers() -> None:
    numbers = (0, 1, 15, 24, 25, 28, 29, 30, 31, 36, 38, 39)
    assert [stages_name(number) for number in numbers] == [
        "any", "16x1", "64x3", "128x6", "32x10", "8x5", "#29", "#30", "8x3", "128xAUTO",
        "768xAUTO", "#39",
    ]  # fmt: skip
    clusters = (0, 1, 2, 3, 16, 17, 28, 38, 51, 52)
    assert [cluster_name(number) for number in clusters] == [
        "auto", "#1", "1x1", "2x1", "1x16", "3x1", "3x2", "1x5", "1x15", "#52",
    ]  # fmt: skip


def test_the_version_names_library_algorithm_workspace_and_choice() -> None:
    algorithm = Algorithm(66, 23, 1, 0, 1, 0, 36, 0, 3)
    assert cublaslt.version_text("13.1.0", algorithm, "best of 37", 64 * 2**20) == (
        "13.1.0, algo 66 tile 128x256 stages 128xAUTO cluster 2x1 split-K 1 swizzle 1 option 0; "
        "workspace 64 MiB; best of 37"
    )


class Clock:
    """A timer whose time passes in the runs themselves."""

    def __init__(self) -> None:
        self.now_us = 0.0

    def record(self) -> float:
        return self.now_us

    def elapsed_us(self, start: float, end: float) -> float:
        return end - start

    def wait(self, mark: float) -> None:
        """Nothing is ever pending."""

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def capture(self, work: Callable[[], None]) -> Any:
        before = self.now_us
        work()
        took, self.now_us = self.now_us - before, before
        return SimpleNamespace(replay=lambda: self.spend(took))

    def spend(self, us: float) -> None:
        self.now_us += us


# --- With a fake library ------------------------------------------------------------------


class FakeBuffer:
    def __init__(self, address: int) -> None:
        self.address = address
        self.shape: tuple[int, ...] = (1,)
        self.dtype = np.dtype("u1")


class FakeEngine(Clock):
    ordinal, stream = 0, 77
    context = SimpleNamespace(enter=lambda: None)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> FakeBuffer:
        assert shape == (cublaslt.WORKSPACE_BYTES,)
        return FakeBuffer(1 << 20)


class FakeLt:
    """Notes calls; has `us` of each algorithm it proposes, whose id is its place."""

    def __init__(self, engine: FakeEngine, us: tuple[float, ...]) -> None:
        self.engine, self.us = engine, us
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.fail: dict[str, int] = {}
        self.handles = 0

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> int:
            plain = tuple(self._plain(arg) for arg in args)
            self.calls.append((name, plain))
            if name == "cublasLtGetVersion":
                return 130101
            if name == "cublasLtCreate" or name.endswith(("DescCreate", "LayoutCreate")):
                self.handles += 1
                args[0]._obj.value = self.handles
            if name == "cublasLtMatmulAlgoGetHeuristic":
                for place in range(len(self.us)):
                    args[8][place].algo[0] = place
                args[9]._obj.value = len(self.us)
            if name == "cublasLtMatmulAlgoConfigGetAttribute":
                args[2]._obj.value = args[0]._obj[0] if args[1].value == 0 else 23
            if name == "cublasLtMatmul":
                self.engine.spend(self.us[args[12]._obj[0]])
            return self.fail.get(name, 0)

        return call

    @staticmethod
    def _plain(arg: Any) -> Any:
        value = getattr(arg, "_obj", arg)
        return getattr(value, "value", "ref")

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [args for called, args in self.calls if called == name]


def peer_with(
    monkeypatch: pytest.MonkeyPatch, name: str, *us: float
) -> tuple[cublaslt.LtPeer, FakeLt]:
    engine = FakeEngine()
    library = FakeLt(engine, us)
    monkeypatch.setattr(cublaslt, "load", lambda name: library)
    return getattr(cublaslt, name)(engine), library


def buffers(*addresses: int) -> list[Any]:
    return [FakeBuffer(address) for address in addresses]


def test_first_is_bound_without_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    peer, library = peer_with(monkeypatch, "lt_first", 50.0, 40.0)
    assert peer.name == "lt_first"
    bound = peer.bind(
        buffers(1024, 2048), buffers(4096 + 16), buffers(8192), Problem(layout="nt", dtype=BF16)
    )
    assert library.named("cublasLtMatmul") == []
    bound.enqueue(3)
    (call,) = library.named("cublasLtMatmul")
    assert call[0] == 1
    b, a, c, d = call[3], call[5], call[8], call[10]
    assert (b, a, c, d) == (4112, 2048, 8192, 8192)
    assert (call[2], call[7]) == (1.0, 0.0)
    assert call[13:] == (1 << 20, 64 * 2**20, 77)
    layouts = [args[1:] for args in library.named("cublasLtMatrixLayoutCreate")]
    assert layouts == [(14, K, N, K), (14, K, M, K), (14, N, M, N)]
    flips = [args[1:3] for args in library.named("cublasLtMatmulDescSetAttribute")]
    assert flips == [(3, 1), (4, 0)]
    wanted = dict(args[1:3] for args in library.named("cublasLtMatmulPreferenceSetAttribute"))
    assert wanted == {1: 64 * 2**20, 3: 2, 5: 16, 6: 256, 7: 256, 8: 256}
    assert bound.version.startswith("13.1.1, algo 0 tile 128x256 ")
    assert bound.version.endswith("; workspace 64 MiB; first of 2")


def test_best_is_chosen_by_time_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    peer, library = peer_with(monkeypatch, "lt_best", 50.0, 60.0, 40.0, 70.0)
    bound = peer.bind(buffers(1024), buffers(4096), buffers(8192, 16384), Problem())
    assert "algo 2 " in bound.version
    assert bound.version.endswith("best of 4")
    before = library.engine.now_us
    bound.enqueue(1)
    assert library.engine.now_us == before + 40.0


def test_failures_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    peer, library = peer_with(monkeypatch, "lt_first")
    with pytest.raises(EngineError, match="no algorithm for 48×80×112 nn fp16 with a workspace"):
        peer.bind(buffers(1024), buffers(4096), buffers(8192), Problem())
    library.fail["cublasLtMatmulAlgoGetHeuristic"] = 15
    with pytest.raises(EngineError, match="has no algorithm for"):
        peer.bind(buffers(1024), buffers(4096), buffers(8192), Problem())
    library.fail["cublasLtMatmulAlgoGetHeuristic"] = 14
    with pytest.raises(EngineError, match="AlgoGetHeuristic failed with cublasStatus_t 14"):
        peer.bind(buffers(1024), buffers(4096), buffers(8192), Problem())
    with pytest.raises(InputError, match="dtype=e4m3 has no peer"):
        peer.bind(
            buffers(1024),
            buffers(4096),
            buffers(8192),
            Problem(dtype=DType("e4m3", 1, 2.0**-4, 2.0**-9, 448.0)),
        )
    with pytest.raises(InputError, match="name='lt' must be"):
        cublaslt.LtPeer(FakeEngine(), "lt")  # type: ignore[arg-type]
    library.fail["cublasLtMatmulDescCreate"] = 7
    with pytest.raises(EngineError, match="DescCreate failed with cublasStatus_t 7"):
        peer.bind(buffers(1024), buffers(4096), buffers(8192), Problem())


def test_a_failing_product_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    peer, library = peer_with(monkeypatch, "lt_first", 50.0)
    enqueue = peer.bind(buffers(1024), buffers(4096), buffers(8192), Problem()).enqueue
    library.fail["cublasLtMatmul"] = 13
    with pytest.raises(EngineError, match="cublasLtMatmul failed with cublasStatus_t 13"):
        enqueue(0)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", no_library)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    with pytest.raises(EngineError, match="libcublasLt was not found"):
        cublaslt.lt_first(FakeEngine())  # type: ignore[arg-type]
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: "/nowhere/libcublasLt.so")
    with pytest.raises(EngineError, match="libcublasLt cannot be loaded"):
        cublaslt.lt_first(FakeEngine())  # type: ignore[arg-type]


def test_the_result_has_the_header_s_layout() -> None:
    assert ctypes.sizeof(cublaslt.HeuristicResult) == 64 + 8 + 4 + 4 + 16


# --- On a GPU -----------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(probe.gpu_problem() is not None, reason=str(probe.gpu_problem()))
@pytest.mark.parametrize("dtype", [FP16, BF16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_compute_the_product(layout: str, dtype: DType) -> None:
    from tilewright.engines.gpu import GpuEngine

    engine = GpuEngine()
    try:
        peers = [cublaslt.lt_first(engine), cublaslt.lt_best(engine)]
    except EngineError as missing:
        pytest.skip(str(missing))
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape).astype(dtype.numpy()) for shape in ((M, K), (K, N)))
    reference = a.astype(np.float64) @ b.astype(np.float64)
    stored = (a.T if layout[0] == "t" else a, b.T if layout[1] == "t" else b)
    on_a, on_b = (engine.upload(np.ascontiguousarray(each)) for each in stored)
    for peer in peers:
        c = engine.empty((M, N), dtype.numpy())
        bound = peer.bind([on_a], [on_b], [c], Problem(layout=layout, dtype=dtype))
        engine.refill(c)
        bound.enqueue(0)
        result = engine.download(c).astype(np.float64)
        error = np.linalg.norm(result - reference) / np.linalg.norm(reference)
        assert error < 5e-3, f"{peer.name}: {error}"  # NaN fails too
        assert "; workspace 64 MiB; " in bound.version
        assert "#" not in bound.version


@pytest.mark.gpu
@pytest.mark.skipif(probe.gpu_problem() is not None, reason=str(probe.gpu_problem()))
def test_best_is_not_slower_than_first() -> None:
    from tilewright.engines.gpu import GpuEngine

    engine = GpuEngine()
    problem = Problem(1000, 1016, 1008, dtype=BF16)
    shapes = ((1000, 1008), (1008, 1016), (1000, 1016))
    rng = np.random.default_rng(0)
    a, b, c = ([engine.upload(rng.standard_normal(shape).astype(BF16.numpy()))] for shape in shapes)
    candidates = []
    for make in (cublaslt.lt_first, cublaslt.lt_best):
        try:
            peer = make(engine)
        except EngineError as error:
            pytest.skip(str(error))
        candidates.append(Candidate(peer.name, peer.bind(a, b, c, problem).enqueue))
    first, best = measure(candidates, engine, Settings(lead_in_us=5_000.0))
    assert best.ratio(first) > 0.97
