from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tilewright import build as builder
from tilewright.engines import driver, gpu, probe
from tilewright.errors import EngineError, InputError
from tilewright.launch import Launch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.artifact import Artifact
    from tilewright.bench.protocol import Timer
    from tilewright.engines.base import Engine

SOURCE = """
struct Args { const float* x; float* y; int n; };

extern "C" __global__ void affine(const __grid_constant__ Args g, float scale) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < g.n) g.y[i] = scale * g.x[i] + 1;
}

extern "C" __global__ void count(float* y) { y[threadIdx.x] += 1; }

extern "C" __global__ void last_shared(int* y, int words) {
  extern __shared__ int s[];
  s[words - 1 - threadIdx.x] = threadIdx.x;
  __syncthreads();
  y[threadIdx.x] = s[words - blockDim.x + threadIdx.x];
}

extern "C" __global__ void cluster_size(int* y) {
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(y[blockIdx.x]));
#endif
}

extern "C" __global__ void fault(int* y) { *y = 1; }
"""

ARGS = np.dtype([("x", "u8"), ("y", "u8"), ("n", "i4")], align=True)


def pack(dtype: Any, *values: Any) -> bytes:
    return np.array(values if len(values) > 1 else values[0], np.dtype(dtype)).tobytes()


# --- Without a GPU ------------------------------------------------------------------------


def test_importing_touches_neither_driver_nor_torch() -> None:
    code = """
        import sys
        import tilewright.engines.gpu, tilewright.bench.peers, tilewright.bench.protocol
        import tilewright.bench.report, tilewright.bench.telemetry
        bad = [name for name in sys.modules if name == "torch" or name.startswith("cuda.")]
        bad += ["libcuda"] if "libcuda.so" in open("/proc/self/maps").read() else []
        sys.exit(str(bad) if bad else 0)
    """
    if not os.path.exists("/proc/self/maps"):
        pytest.skip("this system has no /proc/self/maps")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_without_a_driver_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "driver_available", lambda: False)
    with pytest.raises(EngineError) as caught:
        gpu.GpuEngine()
    assert str(caught.value) == (
        "no NVIDIA GPU was found: this machine has no driver; "
        "use --engine emulator, which needs no GPU."
    )


class Code(int):
    name = "CUDA_ERROR_NO_DEVICE"


def fake_driver(monkeypatch: pytest.MonkeyPatch, **functions: Callable[..., Any]) -> None:
    types = SimpleNamespace(cuGetErrorString=lambda code: (0, b"some words"), **functions)
    monkeypatch.setattr(probe, "driver_available", lambda: True)
    monkeypatch.setattr(importlib, "import_module", lambda name: types)


def test_a_driver_without_a_gpu_says_so_with_the_drivers_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_driver(monkeypatch, cuInit=lambda flags: (Code(100),))
    with pytest.raises(
        EngineError,
        match=r"no NVIDIA GPU was found: cuInit failed with CUDA_ERROR_NO_DEVICE \(some",
    ):
        driver.Driver()


def test_each_return_code_is_checked_and_results_are_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_driver(
        monkeypatch,
        cuInit=lambda flags: (0,),
        cuOne=lambda: (0, 5),
        cuTwo=lambda: (0, 5, 6),
        cuBad=lambda: (Code(100), 5),
    )
    call = driver.Driver()
    assert call("cuInit", 0) == ()
    assert call("cuOne") == 5
    assert call("cuTwo") == (5, 6)
    call.quietly("cuBad")
    with pytest.raises(EngineError, match="cuBad failed with CUDA_ERROR_NO_DEVICE"):
        call("cuBad")


def test_a_forked_child_is_told_so_instead_of_using_the_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_driver(monkeypatch, cuInit=lambda flags: (0,))
    call = driver.Driver()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(EngineError, match="forked"):
        call("cuInit", 0)
    call.quietly("cuMissing")  # a finalizer in the child calls nothing


# --- On a GPU -----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 2])  # none, active, invalidated
def test_what_a_capture_refuses(status: int) -> None:
    asked: list[tuple[str, int]] = []

    def call(function: str, stream: int) -> int:
        asked.append((function, stream))
        return status

    engine: Any = SimpleNamespace(call=call)
    if status:
        with pytest.raises(EngineError, match=r"x.cu cannot be loaded while a CUDA graph is captu"):
            gpu.GpuEngine.refuse_capture(engine, 5, "x.cu cannot be loaded")
    else:
        gpu.GpuEngine.refuse_capture(engine, 5, "x.cu cannot be loaded")
    assert asked == [("cuStreamIsCapturing", 5)]


on_gpu = pytest.mark.skipif(probe.gpu_problem() is not None, reason=str(probe.gpu_problem()))


@pytest.fixture(scope="module")
def engine() -> gpu.GpuEngine:
    return gpu.GpuEngine()


@pytest.fixture(scope="module")
def artifact(engine: gpu.GpuEngine) -> Artifact:
    return builder.build(builder.Source("test_gpu.cu", SOURCE), engine.arch)


@pytest.mark.gpu
@on_gpu
class TestOnGpu:
    def test_it_is_an_engine_and_a_timer_and_knows_its_gpu(self, engine: gpu.GpuEngine) -> None:
        as_engine: Engine = engine
        as_timer: Timer = engine
        assert as_engine.name == "gpu"
        assert as_timer is engine
        assert engine.arch.startswith("sm_")
        assert engine.gpu_name in engine.title
        assert engine.l2_bytes > 2**20
        assert engine.shared_bytes_limit > 48 * 1024
        assert engine.stream > 2  # neither of the default streams
        assert engine.uuid.startswith("GPU-")

    @pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "float64"])
    @pytest.mark.parametrize("shape", [(), (0, 3), (1,), (33, 65)])
    def test_what_is_uploaded_comes_back(
        self, engine: gpu.GpuEngine, dtype: str, shape: tuple[int, ...]
    ) -> None:
        array = np.asarray(np.random.default_rng(0).standard_normal(shape) * 9).astype(dtype)
        buffer = engine.upload(array)
        back = engine.download(buffer)
        assert buffer.address % 256 == 0
        assert (back.shape, back.dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(back, array)

    def test_bf16_and_strided_arrays_come_back(self, engine: gpu.GpuEngine) -> None:
        ml_dtypes = pytest.importorskip("ml_dtypes")
        array = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16).T
        back = engine.download(engine.upload(array))
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)

    def test_empty_memory_is_poisoned_and_can_be_again(self, engine: gpu.GpuEngine) -> None:
        buffer = engine.empty((7, 5), np.dtype(np.float16))
        assert np.isnan(engine.download(buffer)).all()
        words = engine.upload(np.zeros(100, np.uint8))
        engine.refill(words)
        assert (engine.download(words) == 0xFF).all()

    def test_memory_is_freed_when_dropped(self, engine: gpu.GpuEngine) -> None:
        before = engine.free_bytes()
        buffer = engine.empty((2**28,), np.dtype(np.uint8))
        assert engine.free_bytes() <= before - 2**27
        del buffer
        assert engine.free_bytes() > before - 2**27

    def test_more_memory_than_there_is_raises(self, engine: gpu.GpuEngine) -> None:
        with pytest.raises(EngineError, match="CUDA_ERROR_OUT_OF_MEMORY"):
            engine.empty((2**50,), np.dtype(np.uint8))
        assert engine.download(engine.upload(np.ones(3))).sum() == 3

    def test_structs_and_scalars_arrive_by_value(
        self, engine: gpu.GpuEngine, artifact: Artifact
    ) -> None:
        x = np.arange(1000, dtype=np.float32)
        on_x, y = engine.upload(x), engine.empty((1001,), np.dtype(np.float32))
        args = np.zeros((), ARGS)
        args["x"], args["y"], args["n"] = on_x.address, y.address, 1000
        params = (args.tobytes(), pack("f4", 2.5))
        engine.launch(Launch(artifact, "affine", (8, 1, 1), (128, 1, 1), params))
        result = engine.download(y)
        np.testing.assert_array_equal(result[:1000], x * np.float32(2.5) + 1)
        assert np.isnan(result[1000])
        with pytest.raises(InputError, match=r"params=\(24,\) bytes must be \(24, 4\)"):
            engine.launch(Launch(artifact, "affine", (8, 1, 1), (128, 1, 1), params[:1]))

    def test_an_unknown_kernel_raises_with_its_name(
        self, engine: gpu.GpuEngine, artifact: Artifact
    ) -> None:
        with pytest.raises(EngineError, match=r"kernel='nothing' .*CUDA_ERROR_NOT_FOUND"):
            engine.launch(Launch(artifact, "nothing", (1, 1, 1), (1, 1, 1), ()))

    def test_shared_memory_up_to_the_limit_and_not_above(
        self, engine: gpu.GpuEngine, artifact: Artifact
    ) -> None:
        limit = engine.shared_bytes_limit
        y = engine.empty((32,), np.dtype(np.int32))
        for shared_bytes in (4096, 64 * 1024, limit, 50 * 1024):
            engine.refill(y)
            params = (pack("u8", y.address), pack("i4", shared_bytes // 4))
            engine.launch(
                Launch(artifact, "last_shared", (1, 1, 1), (32, 1, 1), params, shared_bytes)
            )
            np.testing.assert_array_equal(engine.download(y), np.arange(32)[::-1])
        too_much = Launch(artifact, "last_shared", (1, 1, 1), (32, 1, 1), params, limit + 16)
        with pytest.raises(InputError, match=f"shared_bytes={limit + 16}.* at most {limit} "):
            engine.launch(too_much)

    def test_clusters(self, engine: gpu.GpuEngine, artifact: Artifact) -> None:
        if int(engine.arch.removeprefix("sm_")) < 90:
            pytest.skip(f"{engine.arch} has no clusters")
        y = engine.empty((4,), np.dtype(np.int32))
        params = (pack("u8", y.address),)
        launch = Launch(artifact, "cluster_size", (4, 1, 1), (1, 1, 1), params, cluster=(2, 1, 1))
        engine.launch(launch)
        assert engine.download(y).tolist() == [2] * 4
        odd = Launch(artifact, "cluster_size", (3, 1, 1), (1, 1, 1), params, cluster=(2, 1, 1))
        with pytest.raises(InputError, match=r"grid\.x=3 must be a multiple of cluster\.x=2"):
            engine.launch(odd)

    def test_graph_replay_does_the_work_again(
        self, engine: gpu.GpuEngine, artifact: Artifact
    ) -> None:
        y = engine.upload(np.zeros(32, np.float32))
        launch = Launch(artifact, "count", (1, 1, 1), (32, 1, 1), (pack("u8", y.address),))

        def work() -> None:
            for _ in range(3):
                engine.launch(launch)

        work()
        replay = engine.capture(work)
        assert (engine.download(y) == 3).all()  # captured, not run
        start = engine.record()
        replay.replay()
        replay.replay()
        end = engine.record()
        assert (engine.download(y) == 9).all()
        assert replay.nodes == 3
        assert 0 < engine.elapsed_us(start, end) < 1e6

    def test_a_capture_that_fails_leaves_the_engine_usable(
        self, engine: gpu.GpuEngine, artifact: Artifact
    ) -> None:
        def fails() -> None:
            raise ValueError("a library's own words")

        with pytest.raises(EngineError, match=r"cannot be captured .* own words"):
            engine.capture(fails)
        with pytest.raises(EngineError, match="holds no work"):
            engine.capture(lambda: None)
        with pytest.raises(EngineError, match="cuStreamSynchronize failed"):
            engine.capture(engine.synchronize)
        y = engine.upload(np.zeros(32, np.float32))
        launch = Launch(artifact, "count", (1, 1, 1), (32, 1, 1), (pack("u8", y.address),))
        engine.capture(lambda: engine.launch(launch)).replay()
        assert (engine.download(y) == 1).all()

    def test_a_fault_is_told_by_download_with_the_drivers_name(self, artifact: Artifact) -> None:
        code = f"""
            import sys
            import numpy as np
            from tilewright import build as builder
            from tilewright.engines.gpu import GpuEngine
            from tilewright.errors import EngineError
            from tilewright.launch import Launch
            engine = GpuEngine()
            artifact = builder.build(builder.Source("test_gpu.cu", {SOURCE!r}), engine.arch)
            y = engine.empty((4,), np.dtype("i4"))
            null = np.zeros((), "u8").tobytes()
            engine.launch(Launch(artifact, "fault", (1, 1, 1), (1, 1, 1), (null,)))
            try:
                engine.download(y)
            except EngineError as error:
                sys.exit(str(error))
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stderr
        assert "--engine emulator" in done.stderr

    def test_the_protocol_times_it_and_the_noise_is_small(
        self, engine: gpu.GpuEngine, artifact: Artifact
    ) -> None:
        from tilewright.bench import protocol

        y = engine.upload(np.zeros(32, np.float32))
        launch = Launch(artifact, "count", (1, 1, 1), (32, 1, 1), (pack("u8", y.address),))
        candidate = protocol.Candidate("count", lambda run: engine.launch(launch))
        settings = protocol.Settings(rounds=5, round_us=3000.0, warmup_us=10_000.0)
        (timing,) = protocol.measure([candidate], engine, settings)
        assert timing.method.startswith("graph replay")
        assert 0.5 < timing.us < 50
        assert protocol.measure_noise(candidate, engine, settings) < 0.2
