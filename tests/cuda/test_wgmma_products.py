"""wgmma through the wrappers: operands laid out as TMA leaves them, descriptors, fragments."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright
from tilewright.dtypes import DTYPES
from tilewright.verify import judge, oracle, random_operands

ml_dtypes = pytest.importorskip("ml_dtypes", reason="bf16 arrays need ml_dtypes")
pytestmark = pytest.mark.usefixtures("compiler")

Array = npt.NDArray[Any]

SOURCE = """
#include "ptx/fence_proxy.cuh"
#include "ptx/wgmma_m64n{n}k16.cuh"
#include "tile/operand.cuh"
#include "tile/wgmma_store.cuh"
using T = {dtype};
using A = tile::Operand<T, ptx::Major::{a}, {m}, {k}>;
using B = tile::Operand<T, ptx::Major::{b}, {n}, {k}>;
extern "C" __global__ void probe(const T* a, const T* b, T* c) {{
  extern __shared__ __align__(1024) T s[];
  T *sa = s, *sb = s + {m} * {k};
  for (int i = threadIdx.x; i < {m} * {k}; i += blockDim.x) sa[i] = a[i];
  for (int i = threadIdx.x; i < {n} * {k}; i += blockDim.x) sb[i] = b[i];
  ptx::fence_proxy_async_shared_cta();
  __syncthreads();
  const int group = threadIdx.x / 128;
  float acc[{n} / 2];
  ptx::wgmma_fence();
  for (int k = 0; k < {k}; k += 16)
    ptx::wgmma_mma_async(acc, A::at(sa, group * 64, k), B::at(sb, 0, k), k > 0);
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_fence_operands(acc);
  tile::store(c, group * 64, 0, {m}, {n}, acc);
}}
"""


def staged(operand: Array, k_major: bool) -> Array:
    """operand[rows, k] in the order that TMA's boxes leave in shared memory."""
    matrix = operand if k_major else operand.T
    across, along = matrix.shape
    panels = matrix.reshape(across, along // 64, 8, 8).transpose(1, 0, 2, 3)
    chunk = np.arange(8) ^ (np.arange(across) % 8)[:, None]
    return np.ascontiguousarray(np.take_along_axis(panels, chunk[None, :, :, None], axis=2))


@pytest.mark.parametrize("majors", ["KK", "KM", "MK", "MM"])
@pytest.mark.parametrize(
    ("dtype", "n", "k"), [("bf16", 64, 64), ("fp16", 256, 64), ("bf16", 128, 128)]
)
def test_products(majors: str, dtype: str, n: int, k: int) -> None:
    kind, m = DTYPES[dtype], 128
    a, b = random_operands(m, n, k, kind, seed=n + k)
    names = {"K": "K", "M": "MN"}
    text = SOURCE.format(dtype=dtype, m=m, n=n, k=k, a=names[majors[0]], b=names[majors[1]])
    sa, sb = staged(a, majors[0] == "K"), staged(b.T, majors[1] == "K")
    c = np.full((m, n), np.nan, kind.numpy())
    report = tilewright.emulate(
        text,
        "probe",
        (1,),
        (256,),
        [x.view(np.uint16) for x in (sa, sb, c)],
        shared_bytes=2 * (m + n) * k,
        arch="sm_90a",
    )
    assert report.findings == []
    verdict = judge(c, oracle(a, b, kind))
    assert verdict.correct, verdict.message


def test_a_from_registers() -> None:
    """A thread of a warp holds rows l / 4 (+ 8) and columns 2 · (l % 4) (+ 1, + 8, + 9) of A."""
    text = """
#include "ptx/fence_proxy.cuh"
#include "ptx/wgmma_m64n64k16.cuh"
#include "tile/operand.cuh"
#include "tile/wgmma_store.cuh"
using B = tile::Operand<fp16, ptx::Major::K, 64, 64>;
extern "C" __global__ void probe(const unsigned* a, const fp16* b, fp16* c) {
  extern __shared__ __align__(1024) fp16 s[];
  for (int i = threadIdx.x; i < 64 * 64; i += blockDim.x) s[i] = b[i];
  const int row = tile::wgmma_row(threadIdx.x), pair = threadIdx.x % 4;
  unsigned held[4][4];
  for (int k = 0; k < 4; ++k)
    for (int i = 0; i < 4; ++i) held[k][i] = a[(row + i % 2 * 8) * 32 + k * 8 + i / 2 * 4 + pair];
  ptx::fence_proxy_async_shared_cta();
  __syncthreads();
  float acc[32];
  ptx::wgmma_fence();
  for (int k = 0; k < 4; ++k) ptx::wgmma_mma_async(acc, held[k], B::at(s, 0, k * 16), k > 0);
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_fence_operands(acc);
  tile::store(c, 0, 0, 64, 64, acc);
}
"""
    kind = DTYPES["fp16"]
    a, b = random_operands(64, 64, 64, kind, seed=3)
    c = np.full((64, 64), np.nan, np.float16)
    operands = [a.view(np.uint32), staged(b.T, True).view(np.uint16), c.view(np.uint16)]
    report = tilewright.emulate(
        text, "probe", (1,), (128,), operands, shared_bytes=64 * 64 * 2, arch="sm_90a"
    )
    assert report.findings == []
    verdict = judge(c, oracle(a, b, kind))
    assert verdict.correct, verdict.message
