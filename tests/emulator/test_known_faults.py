"""Faults that users of other GEMM libraries reported: the emulator tells each of them.

Each kernel is the reported mistake in a few lines, and its mended form where one is not obvious.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.emulator.report import Report

pytestmark = pytest.mark.usefixtures("compiler")
Floats = np.ndarray[Any, np.dtype[Any]]

SOURCE = r"""
// A row of a tile is padded to 17 floats, and every fourth thread reads 16 bytes of it.
extern "C" __global__ void padded_rows(float* out) {
  __shared__ __align__(16) float tile[64][17];
  for (int i = threadIdx.x; i < 64 * 17; i += blockDim.x) (&tile[0][0])[i] = i;
  __syncthreads();
  float4 v = *reinterpret_cast<const float4*>(&tile[threadIdx.x][4]);
  out[threadIdx.x] = v.x + v.y + v.z + v.w;
}
// -1 marks padding, and is used as an offset.
extern "C" __global__ void sentinel(float* out, const float* x, const int* rows, int width) {
  int row = rows[blockIdx.x];
  out[blockIdx.x * width + threadIdx.x] = CLAMPED ? (row < 0 ? 0 : x[row * width + threadIdx.x])
                                                  : x[row * width + threadIdx.x];
}
// The batch offset is an int: at batch 8,193 it wraps.
extern "C" __global__ void batch_offset(float* c, int batch) {
  int m = 512, n = 512, thread = threadIdx.x;
  c[batch * m * n + thread] = 1;
}
// C is read although beta is 0, and it has never been written: NaN times 0 is NaN.
extern "C" __global__ void scale_c(float* c, float beta) {
  c[threadIdx.x] = 2.f + (SKIPPED && beta == 0 ? 0 : beta * c[threadIdx.x]);
}
// fmaxf(NaN, 0) is 0: a framework's ReLU keeps the NaN.
extern "C" __global__ void relu(float* out, const float* x) {
  float v = x[threadIdx.x];
  out[threadIdx.x] = KEPT ? (v < 0 ? 0 : v) : fmaxf(v, 0);
}
// The barrier at the end of the loop is missing: one K tile works by luck.
extern "C" __global__ void loop_back(float* out, const float* x, int steps) {
  __shared__ float tile[64];
  float sum = 0;
  for (int k = 0; k < steps; ++k) {
    tile[threadIdx.x] = x[k * 64 + threadIdx.x];
    __syncthreads();
    sum += tile[threadIdx.x ^ 33];
    if (BARRIER) __syncthreads();
  }
  out[threadIdx.x] = sum;
}
// The wait stands at one step and not at the reuse of a slot.
extern "C" __global__ void fixed_wait(float* out, const float* x, int steps) {
  __shared__ __align__(16) float ring[2][128];
  auto load = [&](int k) {
    unsigned to = (unsigned)__cvta_generic_to_shared(&ring[k % 2][threadIdx.x * 4]);
    if (k < steps) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                                :: "r"(to), "l"(x + k * 128 + threadIdx.x * 4) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  float sum = 0;
  load(0);
  for (int k = 0; k < steps; ++k) {
    load(k + 1);
    if (EACH || k == 0) asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    for (int i = 0; i < 4; ++i) sum += ring[k % 2][threadIdx.x * 4 + i];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
// fp32 bits go into a tf32 product as they are: the hardware drops the low 13 of them.
extern "C" __global__ void tf32(float* out, float x) {
  unsigned a = __float_as_uint(x), one = __float_as_uint(1.f), zero = 0;
  if (ROUNDED) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(a) : "f"(x));
  float d[4];
  unsigned b = threadIdx.x % 4 ? zero : one;  // only k = 0 of B counts
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %4, %5, %5},"
      "{%6, %5}, {%7, %7, %7, %7};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]) : "r"(a), "r"(zero), "r"(b), "f"(0.f));
  out[threadIdx.x] = d[0];
}
"""
FLAGS = ("CLAMPED", "SKIPPED", "KEPT", "BARRIER", "EACH", "ROUNDED")


def run(
    kernel: str, args: list[Any], grid: int = 1, block: int = 64, mended: bool = False
) -> Report:
    defines = dict.fromkeys(FLAGS, int(mended))
    return tilewright.emulate(SOURCE, kernel, (grid,), (block,), args, defines=defines)


def kinds(report: Report) -> list[str]:
    return sorted({finding.kind for finding in report.findings})


def normal(*shape: int) -> Floats:
    return np.random.default_rng(1).standard_normal(shape).astype("f4")


def unset(*shape: int) -> Floats:
    return np.full(shape, np.nan, "f4")


def test_a_vector_read_from_a_padded_row() -> None:
    report = run("padded_rows", [unset(64)])
    assert kinds(report) == ["misaligned"]
    (finding,) = report.findings
    assert (finding.lane, finding.address) == (1, 1 * 68 + 16)
    assert "no multiple of 16" in finding.message


@pytest.mark.parametrize(("mended", "found"), [(False, ["out-of-bounds"]), (True, [])])
def test_a_sentinel_used_as_an_offset(mended: bool, found: list[str]) -> None:
    args = [unset(3, 64), normal(5, 64), np.array([2, -1, 4], "i4"), 64]
    report = run("sentinel", args, grid=3, mended=mended)
    assert kinds(report) == found
    assert all(finding.block == 1 and finding.array == "sentinel_param_1"
               for finding in report.findings)  # fmt: skip


@pytest.mark.parametrize("batch", [8191, 8192])
def test_an_offset_that_wraps(batch: int) -> None:
    """The store lands GiB before the array, or behind it; neither meets another array."""
    report = run("batch_offset", [normal(64), batch])
    assert kinds(report) == ["out-of-bounds"]
    (finding,) = report.findings
    assert ("before" if batch == 8192 else "past its end") in finding.message


@pytest.mark.parametrize(("mended", "found"), [(False, ["uninitialised"]), (True, [])])
def test_an_output_that_is_scaled_by_zero(mended: bool, found: list[str]) -> None:
    c = unset(64)
    assert kinds(run("scale_c", [c, 0.0], mended=mended)) == found
    assert bool(np.isnan(c).all()) is not mended


@pytest.mark.parametrize("mended", [False, True])
def test_a_relu_and_nan(mended: bool) -> None:
    x = normal(64)
    x[5] = np.nan
    out = np.zeros(64, "f4")
    assert kinds(run("relu", [out, x], mended=mended)) == []
    assert bool(np.isnan(out[5])) is mended
    np.testing.assert_array_equal(np.delete(out, 5), np.maximum(np.delete(x, 5), 0))


@pytest.mark.parametrize(("steps", "mended", "found"), [(1, False, []), (2, False, ["race"]),
                                                        (2, True, [])])  # fmt: skip
def test_a_barrier_at_the_loops_end(steps: int, mended: bool, found: list[str]) -> None:
    x, out = normal(steps, 64), unset(64)
    assert kinds(run("loop_back", [out, x, steps], mended=mended)) == found


@pytest.mark.parametrize(("steps", "mended", "found"), [(1, False, []), (3, False, ["async-read"]),
                                                        (3, True, [])])  # fmt: skip
def test_a_wait_at_one_step(steps: int, mended: bool, found: list[str]) -> None:
    x, out = normal(steps, 128), unset(32)
    assert set(found) <= set(kinds(run("fixed_wait", [out, x, steps], block=32, mended=mended)))
    if not found:
        np.testing.assert_allclose(out, x.reshape(steps, 32, 4).sum((0, 2)), 1e-4, 1e-5)


@pytest.mark.parametrize("mended", [False, True])
def test_fp32_bits_in_a_tf32_product(mended: bool) -> None:
    """1 + 2^-11 + 2^-12 is nearer to 1 + 2^-10; cut off it is 1."""
    out = unset(32)
    run("tf32", [out, 1 + 2**-11 + 2**-12], block=32, mended=mended)
    assert out[0] == (1 + 2**-10 if mended else 1)
