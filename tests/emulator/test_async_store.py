"""st.async and red.async: values for other blocks of a cluster, counted by their mbarriers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright

HERE = Path(__file__).parent
SCHEDULES: list[dict[str, Any]] = [{}, *({"schedule": "random", "seed": s} for s in (1, 2))]
pytestmark = pytest.mark.usefixtures("compiler")

HEAD = """
#include "hopper.cuh"
#define DONE ".mbarrier::complete_tx::bytes"
__device__ void send(u32 to, u32 value, u32 bar) {
  asm volatile("st.async.shared::cluster" DONE ".u32 [%0], %1, [%2];"
               :: "r"(to), "r"(value), "r"(bar) : "memory");
}
__device__ void send2(u32 to, u64 one, u64 two, u32 bar) {
  asm volatile("st.async.weak.shared::cluster" DONE ".v2.b64 [%0], {%1, %2}, [%3];"
               :: "r"(to), "l"(one), "l"(two), "r"(bar) : "memory");
}
__device__ void add_to(u32 to, u32 value, u32 bar) {
  asm volatile("red.async.relaxed.cluster.shared::cluster" DONE ".add.u32 [%0], %1, [%2];"
               :: "r"(to), "r"(value), "r"(bar) : "memory");
}
"""
# Each thread gives its value to the thread with its number in the next block of four.
RING = (
    HEAD
    + """
extern "C" __global__ void k(const u32 *in, u32 *out) {
  __shared__ u32 got[64]; __shared__ u64 full;
  int t = threadIdx.x; u32 next = (rank() + 1) % 4;
  if (t == 0) { init(&full, 1); FENCE_INIT(); expect(&full, /*bytes*/ 256 /**/); }
  /*known*/ CLUSTER_SYNC(); /**/
  u32 value = in[blockIdx.x * 64 + t];
  send(mapa(in_shared(&got[t]), next), value, mapa(in_shared(&full), /*whose*/ next /**/));
  /*wait*/ wait(&full, 0); /**/
  out[blockIdx.x * 64 + t] = got[t];
  CLUSTER_SYNC();
}
"""
)


def mutant(text: str, name: str, instead: str) -> str:
    head, mark, rest = text.partition(f"/*{name}*/")
    assert mark
    return head + instead + rest.partition("/**/")[2]


def launch(text: str, args: list[Any], cluster: int = 4, **how: Any) -> Any:
    return tilewright.emulate(
        text, "k", 4, 64, args, arch="sm_90a", include_path=[str(HERE)], cluster=(cluster, 1, 1),
        **how,
    )  # fmt: skip


def kinds(report: Any) -> set[str]:
    return {finding.kind for finding in report.findings}


@pytest.mark.parametrize("how", SCHEDULES)
def test_values_for_the_next_block(how: dict[str, Any]) -> None:
    a, out = np.arange(256, dtype="u4"), np.zeros(256, "u4")
    report = launch(RING, [a, out], **how)
    assert report.findings == []
    assert report.completed
    np.testing.assert_array_equal(out.reshape(4, 64), np.roll(a.reshape(4, 64), 1, axis=0))


@pytest.mark.parametrize(
    ("name", "instead", "expected"),
    [
        ("wait", "", "async-read"),
        ("wait", "if (t < 32) wait(&full, 0);", "race"),
        ("known", "__syncthreads();", "race"),
        ("bytes", "260", "deadlock"),
        ("whose", "rank()", "invalid-copy"),
    ],
)
def test_what_they_need(name: str, instead: str, expected: str) -> None:
    a, out = np.arange(256, dtype="u4"), np.zeros(256, "u4")
    assert expected in kinds(launch(mutant(RING, name, instead), [a, out]))


def test_one_block_has_nobody_to_send_to() -> None:
    a, out = np.arange(256, dtype="u4"), np.zeros(256, "u4")
    assert "invalid-copy" in kinds(launch(RING, [a, out], cluster=1))


TURNS = (
    HEAD
    + """
extern "C" __global__ void k(const u32 *in, u32 *out) {
  __shared__ u32 got[64]; __shared__ u64 full;
  int t = threadIdx.x; u32 next = (rank() + 1) % 4, sum = 0;
  if (t == 0) { init(&full, 1); FENCE_INIT(); expect(&full, 256); }
  CLUSTER_SYNC();
  for (u32 turn = 0; turn < 2; turn++) {
    send(mapa(in_shared(&got[t]), next), in[blockIdx.x * 64 + t] + turn,
         mapa(in_shared(&full), next));
    wait(&full, turn);
    if (t == 0 && turn == 0) expect(&full, 256);
    sum += got[t];
    /*read*/ CLUSTER_SYNC(); /**/
  }
  out[blockIdx.x * 64 + t] = sum;
  CLUSTER_SYNC();
}
"""
)


@pytest.mark.parametrize("how", SCHEDULES)
def test_what_is_sent_again_waits_for_the_readers(how: dict[str, Any]) -> None:
    a, out = np.arange(256, dtype="u4"), np.zeros(256, "u4")
    report = launch(TURNS, [a, out], **how)
    assert report.findings == []
    expected = 2 * np.roll(a.reshape(4, 64), 1, axis=0) + 1
    np.testing.assert_array_equal(out.reshape(4, 64), expected)
    assert "race" in kinds(launch(mutant(TURNS, "read", ""), [a, out], **how))


@pytest.mark.parametrize("how", SCHEDULES)
def test_sums_of_a_cluster(how: dict[str, Any]) -> None:
    """Lanes of the others add to one word, beside 16 bytes that come as a vector."""
    text = (
        HEAD
        + """
    extern "C" __global__ void k(const u32 *in, u32 *out, u64 *pairs) {
      __shared__ u32 sum; __shared__ alignas(16) u64 pair[2]; __shared__ u64 full;
      int t = threadIdx.x;
      if (t == 0) { sum = 0; init(&full, 1); FENCE_INIT(); expect(&full, 3 * 16 * 4 + 16); }
      CLUSTER_SYNC();
      u32 value = in[blockIdx.x * 64 + t];
      for (u32 r = 0; r < 4; r++)
        if (r != rank() && t < 16)
          add_to(mapa(in_shared(&sum), r), value, mapa(in_shared(&full), r));
      u32 next = (rank() + 1) % 4;
      if (t == 0) send2(mapa(in_shared(pair), next), blockIdx.x, 7, mapa(in_shared(&full), next));
      wait(&full, 0);
      if (t == 0) {
        out[blockIdx.x] = sum;
        pairs[2 * blockIdx.x] = pair[0]; pairs[2 * blockIdx.x + 1] = pair[1];
      }
      CLUSTER_SYNC();
    }
    """
    )
    a, out, pairs = np.arange(256, dtype="u4"), np.zeros(4, "u4"), np.zeros((4, 2), "u8")
    report = launch(text, [a, out, pairs], **how)
    assert report.findings == []
    own = a.reshape(4, 64)[:, :16].sum(1)
    np.testing.assert_array_equal(out, own.sum() - own)
    np.testing.assert_array_equal(pairs, [[(block - 1) % 4, 7] for block in range(4)])
    own_block = text.replace("r != rank() && ", "")
    assert "invalid-copy" in kinds(launch(own_block, [a, out, pairs]))
