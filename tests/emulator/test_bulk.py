"""Bulk copies beside tensors: reductions, hints and prefetches, multicast of runs, groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.errors import UnsupportedError
from tilewright.tensormap import tiled

HERE = Path(__file__).parent
pytestmark = pytest.mark.usefixtures("compiler")


def launch(text: str, grid: Any, block: int, args: list[Any], **how: Any) -> Any:
    source = '#include "hopper.cuh"\n' + text
    return tilewright.emulate(
        source, "k", grid, block, args, arch="sm_90a", include_path=[str(HERE)], **how
    )


REDUCE = """
extern "C" __global__ void k(const uint4 *in, void *out) {
  __shared__ alignas(16) uint4 s[8];
  if (threadIdx.x < 8) s[threadIdx.x] = in[blockIdx.x * 8 + threadIdx.x];
  FENCE_PROXY(); __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.OP [%0], [%1], 128;"
                 :: "l"(out), "r"(in_shared(s)) : "memory");
    COMMIT(); WAIT_ALL(0);
  }
}
"""


@pytest.mark.parametrize(
    ("op", "dtype", "function"),
    [
        ("add.u32", "u4", np.add), ("add.f32", "f4", np.add), ("min.s64", "i8", np.minimum),
        ("xor.b32", "u4", np.bitwise_xor), ("add.noftz.f16", "f2", np.add),
        ("max.u64", "u8", np.maximum),
    ],
)  # fmt: skip
def test_blocks_add_to_one_place(op: str, dtype: str, function: Any) -> None:
    """Reductions are atomics: blocks that meet do not race."""
    a = np.random.default_rng(0).integers(0, 50, (3, 128 // np.dtype(dtype).itemsize))
    parts, out = a.astype(dtype), np.ones(a.shape[1], dtype)
    want = function.reduce(np.concatenate([out[None], parts]), axis=0).astype(dtype)
    report = launch(REDUCE.replace("OP", op), 3, 32, [parts, out])
    assert report.findings == []
    np.testing.assert_array_equal(out, want)


def test_stores_of_blocks_to_one_place_race() -> None:
    text = REDUCE.replace("cp.reduce", "cp").replace("bulk_group.OP", "bulk_group")
    report = launch(text, 3, 32, [np.zeros((3, 32), "u4"), np.zeros(32, "u4")])
    assert {finding.kind for finding in report.findings} == {"race"}


def test_a_type_that_a_reduction_does_not_take() -> None:
    with pytest.raises((UnsupportedError, tilewright.errors.CompileError)):
        launch(REDUCE.replace("OP", "xor.f32"), 1, 32, [np.zeros(32, "u4"), np.zeros(32, "u4")])


HINTS = """
extern "C" __global__ void k(TENSOR map, u32 *in, u32 *out) {
  __shared__ alignas(128) u32 s[2][128]; __shared__ u64 full; u64 policy; int t = threadIdx.x;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], 512;" :: "l"(in) : "memory");
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %1}];"
               :: "l"(&map), "r"(0) : "memory");
  if (t == 0) { init(&full, 1); FENCE_INIT(); }
  CLUSTER_SYNC();
  if (t == 0) {
    expect(&full, rank() ? 512 : 1024);
    if (rank() == 0) {
      asm volatile("cp.async.bulk.shared::cluster.global" SIGNAL ".multicast::cluster"
                   ".L2::cache_hint [%0], [%1], 512, [%2], %3, %4;"
                   :: "r"(in_shared(s[0])), "l"(in), "r"(in_shared(&full)), "h"((u16)3),
                      "l"(policy) : "memory");
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile" SIGNAL
                   ".L2::cache_hint [%0], [%1, {%2, %2}], [%3], %4;"
                   :: "r"(in_shared(s[1])), "l"(&map), "r"(0), "r"(in_shared(&full)), "l"(policy)
                   : "memory");
    }
  }
  wait(&full, 0);
  for (int i = t; i < 128; i += 32)
    out[blockIdx.x * 128 + i] = s[0][i] + (rank() ? 0 : s[1][i]);
  CLUSTER_SYNC();
}
"""


@pytest.mark.parametrize("how", [{}, {"schedule": "random", "seed": 5}])
def test_hints_change_nothing(how: dict[str, Any]) -> None:
    a, b = np.arange(128, dtype="u4"), np.arange(512, 512 + 128, dtype="u4").reshape(4, 32)
    out = np.zeros((2, 128), "u4")
    report = launch(HINTS, 2, 32, [tiled(b, (4, 32)), a, out], cluster=2, **how)
    assert report.findings == []
    np.testing.assert_array_equal(out, [a + b.reshape(-1), a])
    assert report.totals["multicast_bytes"] == 512


GROUPS = """
extern "C" __global__ void k(u32 *out, int n) {
  __shared__ alignas(16) u32 s[2][32]; int t = threadIdx.x;
  for (int i = 0; i < n; i++) {
    if (t == 0) WAIT_READ(PENDING);
    __syncwarp();
    s[i % 2][t] = i * 100 + t;
    FENCE_PROXY(); __syncwarp();
    if (t == 0) { bulk_store(out + 32 * i, s[i % 2], 128); COMMIT(); }
  }
  if (t == 0) WAIT_READ(0);
}
"""


@pytest.mark.parametrize("pending", [0, 1, 2])
def test_two_buffers_take_turns(pending: int) -> None:
    """With two groups left, the buffer that is written next is still read: too late for it."""
    out = np.zeros((5, 32), "u4")
    report = launch(GROUPS.replace("PENDING", str(pending)), 1, 32, [out, np.int32(5)])
    right = bool((out == np.arange(5)[:, None] * 100 + np.arange(32)).all())
    assert right == (pending < 2)
    assert {finding.kind for finding in report.findings} == (set() if right else {"race"})


def test_what_is_read_before_the_copy_is_waited_for_is_old() -> None:
    """A store that its thread has not waited for in full has not reached the array."""
    text = """
    extern "C" __global__ void k(volatile u32 *out, u32 *seen) {
      __shared__ alignas(16) u32 s[4]; int t = threadIdx.x;
      if (t < 4) s[t] = 7;
      FENCE_PROXY(); __syncwarp();
      if (t == 0) {
        bulk_store((void *)out, s, 16); COMMIT(); WAIT; *seen = *out;
      }
    }"""
    for wait, value in (("WAIT_READ(0)", 0), ("WAIT_ALL(0)", 7)):
        out, seen = np.zeros(4, "u4"), np.full(1, 99, "u4")
        launch(text.replace("WAIT;", f"{wait};"), 1, 32, [out, seen])
        assert (int(seen[0]), int(out[0])) == (value, 7)


@pytest.mark.parametrize("kernel", [
    "if (t == 0) { expect(&b, 16); bulk_load(s, wild, 16, &b); } wait(&b, 0);",
    "if (t == 0) { FENCE_PROXY(); bulk_store(wild, s, 16); COMMIT(); WAIT_READ(0); }",
])  # fmt: skip
def test_a_launch_without_arrays(kernel: str) -> None:
    """A wild address then lies in no array because there are none."""
    text = f"""extern "C" __global__ void k() {{
      __shared__ uint4 s[1]; __shared__ u64 b; const int t = threadIdx.x;
      void *wild = (void*)0x1000;
      if (t == 0) {{ s[0] = uint4(); init(&b, 1); }}
      __syncthreads(); {kernel}
    }}"""
    report = launch(text, 1, 32, [])
    assert "out-of-bounds" in [found.kind for found in report.findings]
    assert report.completed
