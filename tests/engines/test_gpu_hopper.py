"""What launches on Hopper have beside those of older GPUs: tensor maps, clusters, overlap."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tilewright import build as builder
from tilewright.engines import gpu, probe
from tilewright.errors import EngineError, InputError
from tilewright.launch import Launch, Packed, Record
from tilewright.tensormap import tiled

if TYPE_CHECKING:
    from tilewright.artifact import Artifact

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(probe.gpu_problem() is not None, reason=str(probe.gpu_problem())),
]

SOURCE = """
#include "ptx/cluster.cuh"
#include "ptx/fence_proxy.cuh"
#include "ptx/griddepcontrol.cuh"
#include "ptx/tma.cuh"
#include "ptx/tma_store.cuh"

struct Args { TensorMap from; TensorMap to; int x, y; };

extern "C" __global__ void move(const __grid_constant__ Args g) {
  __shared__ __align__(1024) unsigned char box[64 * 128];
  __shared__ ptx::mbarrier full;
  if (threadIdx.x != 0) return;
  ptx::mbarrier_init(&full, 1);
  ptx::fence_mbarrier_init();
  ptx::mbarrier_arrive_expect_tx(&full, sizeof(box));
  ptx::cp_async_bulk_tensor_2d(box, g.from, &full, g.x, g.y);
  ptx::mbarrier_wait_parity(&full, 0);
  ptx::cp_async_bulk_tensor_2d_store(g.to, 0, 0, box);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group<0>();
}

extern "C" __global__ void ranks(unsigned* out) { out[blockIdx.x] = ptx::cluster_ctarank(); }

extern "C" __global__ void __cluster_dims__(4, 1, 1) fours(unsigned* out) {
  out[blockIdx.x] = ptx::cluster_ctarank();
}

extern "C" __global__ void add(float* x, int count) {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    x[i] = 2 * x[i] + 1;
}
"""
ARGS = Record("ARGS", **{"from": "map", "to": "map", "x": "i4", "y": "i4"})


@pytest.fixture(scope="module")
def engine() -> gpu.GpuEngine:
    opened = gpu.GpuEngine()
    if opened.arch != "sm_90":
        pytest.skip(f"{opened.title} is no Hopper GPU")
    return opened


@pytest.fixture(scope="module")
def artifact(engine: gpu.GpuEngine) -> Artifact:
    return builder.build(builder.Source("hopper.cu", SOURCE), "sm_90a")


def pointer(address: int) -> bytes:
    return address.to_bytes(8, "little")


@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize(("x", "y"), [(0, 0), (64, 32), (-8, 5), (160, 90)])
def test_a_box_arrives_with_zeros_beyond_the_edges(
    engine: gpu.GpuEngine, artifact: Artifact, swizzle: str, x: int, y: int
) -> None:
    matrix = np.arange(100 * 200, dtype=np.int16).reshape(100, 200).view(np.uint16)
    box = np.full((64, 64), 0xFFFF, np.uint16)
    source, target = engine.upload(matrix), engine.upload(box)
    maps: dict[str, Any] = {
        "from": tiled(matrix, (64, 64), swizzle=swizzle).at(source.address),
        "to": tiled(box, (64, 64), swizzle=swizzle).at(target.address),
    }
    params: tuple[Packed, ...] = (ARGS.pack(**maps, x=x, y=y),)
    engine.launch(Launch(artifact, "move", (1, 1, 1), (32, 1, 1), params))
    rows, cols = np.indices((64, 64)) + np.array([y, x]).reshape(2, 1, 1)
    inside = (rows >= 0) & (rows < 100) & (cols >= 0) & (cols < 200)
    expected = np.where(inside, (rows * 200 + cols).astype(np.uint16), 0)
    np.testing.assert_array_equal(engine.download(target), expected)


def test_a_map_of_the_host_is_refused(engine: gpu.GpuEngine, artifact: Artifact) -> None:
    host = tiled(np.zeros((64, 64), np.uint16), (64, 64))
    params = (ARGS.pack(**{"from": host, "to": host}, x=0, y=0),)
    with pytest.raises(InputError, match="upload it and give tensor_map"):
        engine.launch(Launch(artifact, "move", (1, 1, 1), (32, 1, 1), params))


@pytest.mark.parametrize("size", [2, 8, 16])
def test_clusters_also_beyond_the_portable_size(
    engine: gpu.GpuEngine, artifact: Artifact, size: int
) -> None:
    out = engine.empty((32,), np.dtype(np.uint32))
    params = (pointer(out.address),)
    engine.launch(Launch(artifact, "ranks", (32, 1, 1), (32, 1, 1), params, cluster=(size, 1, 1)))
    assert engine.download(out).tolist() == [i % size for i in range(32)]


def test_a_kernel_with_a_cluster_of_its_own(engine: gpu.GpuEngine, artifact: Artifact) -> None:
    out = engine.empty((8,), np.dtype(np.uint32))
    launch = Launch(
        artifact, "fours", (8, 1, 1), (1, 1, 1), (pointer(out.address),), cluster=(4, 1, 1)
    )
    engine.launch(launch)
    assert engine.download(out).tolist() == [0, 1, 2, 3] * 2
    for cluster in ((1, 1, 1), (2, 1, 1)):
        with pytest.raises(InputError, match=r"must be \(4, 1, 1\), which fours was compiled for"):
            engine.launch(replace(launch, cluster=cluster))


def test_overlapping_kernels_of_a_stream_wait_for_what_they_read(
    engine: gpu.GpuEngine, artifact: Artifact
) -> None:
    count = 1 << 22
    x = engine.upload(np.zeros(count, np.float32))
    params = (pointer(x.address), count.to_bytes(4, "little"))
    launch = Launch(artifact, "add", (512, 1, 1), (256, 1, 1), params, overlap=True)

    def work() -> None:
        for _ in range(10):
            engine.launch(launch)

    work()
    assert (engine.download(x) == 2**10 - 1).all()
    engine.capture(work).replay()  # programmatic edges are in the graph too
    assert (engine.download(x) == 2**20 - 1).all()


def test_a_map_that_the_driver_refuses_is_told(engine: gpu.GpuEngine, artifact: Artifact) -> None:
    """Whatever our own rules let through."""
    good = tiled(np.zeros((64, 64), np.uint16), (64, 64)).at(0x1000)
    object.__setattr__(good, "base", 8)  # not a multiple of 16
    params = (ARGS.pack(**{"from": good, "to": good}, x=0, y=0),)
    with pytest.raises(EngineError, match="cuTensorMapEncodeTiled failed with CUDA_ERROR_INVALID"):
        engine.launch(Launch(artifact, "move", (1, 1, 1), (32, 1, 1), params))
