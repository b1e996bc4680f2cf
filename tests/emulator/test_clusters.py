"""Clusters as CUDA C++ uses them: distributed shared memory, their barrier, remote mbarriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.emulator.cluster_order import blocks_of, clusters_and_ranks, whole_clusters
from tilewright.errors import InputError

SCHEDULES: list[dict[str, Any]] = [{}, *({"schedule": "random", "seed": s} for s in (1, 2))]
PRELUDE = r"""
typedef unsigned u32; typedef unsigned long long u64;
__device__ u32 rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ u32 in_shared(void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ u32 mapa(u32 a, u32 r) {
  u32 b; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(b) : "r"(a), "r"(r)); return b;
}
__device__ u32 load(u32 a) {
  u32 v; asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(a) : "memory"); return v;
}
__device__ void store(u32 a, u32 v) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(a), "r"(v) : "memory");
}
#define CLUSTER_ARRIVE(how) asm volatile("barrier.cluster.arrive" how ".aligned;" ::: "memory")
#define CLUSTER_WAIT() asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory")
#define CLUSTER_SYNC() CLUSTER_ARRIVE(".release"); CLUSTER_WAIT()
__device__ void init(u64 *b, u32 n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(in_shared(b)), "r"(n));
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void arrive(u64 *b, u32 r) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
               :: "r"(mapa(in_shared(b), r)) : "memory");
}
__device__ void wait(u64 *b, u32 parity) {
  asm volatile("{\n.reg .pred p;\nW: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, "
               "[%0], %1;\n@!p bra W;\n}" :: "r"(in_shared(b)), "r"(parity) : "memory");
}
"""


def launch(body: str, *args: Any, grid: Any = 4, block: int = 64, **how: Any) -> Any:
    source = PRELUDE + 'extern "C" __global__ void k(u32 *out) {\n' + body + "\n}"
    how = {"cluster": (2, 1, 1), "arch": "sm_90a", **how}
    return tilewright.emulate(source, "k", grid, block, list(args), **how)


def kinds(report: Any) -> list[str]:
    return [finding.kind for finding in report.findings]


def test_order_of_blocks() -> None:
    grid, cluster = (4, 6, 2), (2, 3, 1)
    ids = blocks_of(grid, cluster, np.arange(8))
    assert sorted(ids.tolist()) == list(range(48))
    number, rank = clusters_and_ranks(grid, cluster, ids)
    np.testing.assert_array_equal(number, np.repeat(np.arange(8), 6))
    np.testing.assert_array_equal(rank, np.tile(np.arange(6), 8))
    assert ids[:6].tolist() == [0, 1, 4, 5, 8, 9]
    assert list(whole_clusters(grid, cluster, np.array([9, 10]))) == [
        *(0, 1, 4, 5, 8, 9), *(2, 3, 6, 7, 10, 11)
    ]  # fmt: skip
    assert whole_clusters(grid, (1, 1, 1), None) == range(48)


def test_registers_of_the_cluster(compiler: str) -> None:
    names = ["cluster_ctarank", "cluster_nctarank", "cluster_ctaid.x", "cluster_ctaid.y",
             "cluster_nctaid.x", "cluster_nctaid.y", "clusterid.x", "clusterid.y",
             "nclusterid.x", "nclusterid.y"]  # fmt: skip
    reads = "".join(
        f'{{ u32 v; asm volatile("mov.u32 %0, %%{name};" : "=r"(v));'
        f" out[(blockIdx.y * gridDim.x + blockIdx.x) * 10 + {i}] = v; }}"
        for i, name in enumerate(names)
    )
    out = np.full((6, 4, 10), 99, "u4")
    report = launch(reads, out, grid=(4, 6), block=1, cluster=(2, 3))
    assert report.findings == []
    y, x = np.mgrid[:6, :4]
    expected = [y % 3 * 2 + x % 2, 6, x % 2, y % 3, 2, 3, x // 2, y // 3, 2, 2]
    for i, value in enumerate(expected):
        np.testing.assert_array_equal(out[..., i], value)


SWAP = """
  __shared__ u32 s[64]; s[threadIdx.x] = blockIdx.x * 100 + threadIdx.x; {sync}
  out[blockIdx.x * 64 + threadIdx.x] = load(mapa(in_shared(&s[63 - threadIdx.x]), rank() ^ 1));
  {last}
"""


@pytest.mark.parametrize("how", SCHEDULES)
@pytest.mark.parametrize(
    ("sync", "last", "expected"),
    [
        ("CLUSTER_SYNC();", "CLUSTER_SYNC();", []),
        ("__syncthreads();", "CLUSTER_SYNC();", ["race"]),
        ("CLUSTER_ARRIVE(\".relaxed\"); CLUSTER_WAIT();", "CLUSTER_SYNC();", ["race"]),
        ("__threadfence(); CLUSTER_ARRIVE(\".relaxed\"); CLUSTER_WAIT();", "CLUSTER_SYNC();", []),
        ("CLUSTER_SYNC();", "", ["ended-peer"]),
        ("CLUSTER_SYNC();", "__syncthreads();", ["ended-peer"]),
    ],
)  # fmt: skip
def test_words_of_the_other_block(
    compiler: str, how: dict[str, Any], sync: str, last: str, expected: list[str]
) -> None:
    out = np.full((4, 64), 99, "u4")
    report = launch(SWAP.format(sync=sync, last=last), out, **how)
    assert set(kinds(report)) == set(expected)
    if not expected:
        peers = np.array([1, 0, 3, 2])[:, None]
        np.testing.assert_array_equal(out, peers * 100 + np.arange(63, -1, -1))


def test_stores_and_atomics_in_the_other_block(compiler: str) -> None:
    body = """
      __shared__ u32 s[65]; s[threadIdx.x] = 0; if (threadIdx.x == 0) s[64] = 0; CLUSTER_SYNC();
      u32 far = mapa(in_shared(&s[threadIdx.x]), rank() ^ 1);
      store(far, 1000 * rank() + threadIdx.x);
      u32 sum = mapa(in_shared(&s[64]), 0), old;
      asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;" : "=r"(old) : "r"(sum), "r"(1));
      CLUSTER_SYNC();
      out[blockIdx.x * 65 + threadIdx.x] = s[threadIdx.x];
      if (threadIdx.x == 0) out[blockIdx.x * 65 + 64] = s[64];
    """
    out = np.full((4, 65), 99, "u4")
    report = launch(body, out)
    assert report.findings == []
    own = np.array([1, 0, 1, 0])[:, None] * 1000 + np.arange(64)
    np.testing.assert_array_equal(out[:, :64], own)
    assert out[:, 64].tolist() == [128, 0, 128, 0]
    row = next(a for a in report.accesses if a.opcode.startswith("st.shared::cluster"))
    assert (row.requests, row.wavefronts, row.bytes) == (8, 0, 4 * 64 * 4)


def test_a_race_with_the_other_block_names_it(compiler: str) -> None:
    body = """
      __shared__ u32 s[32]; CLUSTER_SYNC();
      if (rank() == 0) store(mapa(in_shared(&s[threadIdx.x]), 1), 5);
      else out[threadIdx.x] = s[threadIdx.x];
      CLUSTER_SYNC();
    """
    report = launch(body, np.zeros(32, "u4"), grid=2, block=32)
    assert "race" in kinds(report)
    found = next(f for f in report.findings if f.kind == "race")
    assert "of block" in found.message
    assert "barrier.cluster or an mbarrier of the cluster would" in found.message


TOLD = """
  __shared__ u64 b; __shared__ u32 s[64];
  if (threadIdx.x == 0) {{ init(&b, 64); {fence} }} {sync}
  store(mapa(in_shared(&s[threadIdx.x]), rank() ^ 1), 7 * blockIdx.x + threadIdx.x);
  {arrive} wait(&b, 0);
  out[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x ^ 33];
"""
RELAXED = 'CLUSTER_ARRIVE(".relaxed"); CLUSTER_WAIT();'


@pytest.mark.parametrize("how", SCHEDULES)
@pytest.mark.parametrize(
    ("fence", "sync", "arrive", "expected"),
    [
        ("", "CLUSTER_SYNC();", "arrive(&b, rank() ^ 1);", set()),
        ("", "__syncthreads();", "arrive(&b, rank() ^ 1);", {"race"}),
        ("", RELAXED, "arrive(&b, rank() ^ 1);", {"race"}),
        ("", "CLUSTER_SYNC();", "arrive(&b, rank());", {"race", "ended-peer"}),
    ],
)
def test_mbarriers_of_the_other_block(
    compiler: str, how: dict[str, Any], fence: str, sync: str, arrive: str, expected: set[str]
) -> None:
    """Who waits for the arrivals of its peer knows what the peer did, and may end after them."""
    out = np.full((4, 64), 99, "u4")
    report = launch(TOLD.format(fence=fence, sync=sync, arrive=arrive), out, **how)
    assert set(kinds(report)) - {"invalid-barrier", "deadlock", "uninitialised"} == expected
    if not expected:
        peers = np.array([1, 0, 3, 2])[:, None]
        np.testing.assert_array_equal(out, 7 * peers + (np.arange(64) ^ 33))


def test_one_does_not_wait_at_an_mbarrier_of_another_block(compiler: str) -> None:
    """There one arrives alone, says the PTX ISA; ptxas cannot see whose an address is."""
    report = launch("""
      __shared__ u64 b;
      if (threadIdx.x == 0) init(&b, 1);
      CLUSTER_SYNC();
      if (threadIdx.x == 0) arrive(&b, rank() ^ 1);
      u64 *there; asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(&b), "r"(rank() ^ 1));
      asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.b64 p, [%0], 0; }"
                   :: "l"(there) : "memory");
      CLUSTER_SYNC();
    """, np.zeros(1, "u4"))  # fmt: skip
    assert kinds(report) == ["invalid-barrier"]
    assert "is another block's, where one can arrive" in report.findings[0].message


@pytest.mark.parametrize(("space", "expected"), [("::cluster", []), ("::cta", ["out-of-bounds"])])
def test_the_space_says_whose_mbarrier_it_may_be(
    compiler: str, space: str, expected: list[str]
) -> None:
    """As ld.shared::cta: an address of another block lies beyond one's own shared memory."""
    report = launch(f"""
      __shared__ u64 b;
      if (threadIdx.x == 0) init(&b, 1);
      CLUSTER_SYNC();
      if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.shared{space}.b64 _, [%0];"
                     :: "r"(mapa(in_shared(&b), rank() ^ 1)) : "memory");
      CLUSTER_SYNC();
    """, np.zeros(1, "u4"))  # fmt: skip
    assert kinds(report) == expected


def test_blocks_that_wait_for_ever(compiler: str) -> None:
    report = launch("if (rank() == 0) { CLUSTER_SYNC(); } else { CLUSTER_ARRIVE(\"\"); }"
                    "if (rank() == 0) { CLUSTER_SYNC(); }"
                    "else { __shared__ u64 b; init(&b, 1); __syncthreads(); wait(&b, 0); }",
                    np.zeros(1, "u4"), grid=2)  # fmt: skip
    assert not report.completed
    assert "deadlock" in kinds(report)


def test_a_wait_without_an_arrival(compiler: str) -> None:
    report = launch("CLUSTER_WAIT();", np.zeros(1, "u4"))
    assert kinds(report) == ["invalid-barrier"]
    assert "without having arrived" in report.findings[0].message
    twice = launch('CLUSTER_ARRIVE(""); CLUSTER_ARRIVE("");', np.zeros(1, "u4"))
    assert kinds(twice) == ["invalid-barrier"]


def test_arrays_of_the_cluster_s_blocks(compiler: str) -> None:
    """What a block wrote to an array its peer reads behind their barrier."""
    body = """
      out[blockIdx.x * 64 + threadIdx.x] = threadIdx.x; {sync}
      out[256 + blockIdx.x * 64 + threadIdx.x] = out[(blockIdx.x ^ 1) * 64 + (threadIdx.x ^ 40)];
    """
    out = np.zeros((8, 64), "u4")
    assert kinds(launch(body.format(sync="CLUSTER_SYNC();"), out)) == []
    np.testing.assert_array_equal(out[4:], np.broadcast_to(np.arange(64) ^ 40, (4, 64)))
    assert kinds(launch(body.format(sync="__syncthreads();"), out)) == ["race"]


def test_the_kernel_s_own_cluster(compiler: str) -> None:
    source = PRELUDE + (
        'extern "C" __global__ void __cluster_dims__(2, 1, 1) k(u32 *out) {'
        " out[blockIdx.x * blockDim.x + threadIdx.x] = rank(); }"
    )
    out = np.full((4, 32), 9, "u4")
    assert tilewright.emulate(source, "k", 4, 32, [out], arch="sm_90a").findings == []
    np.testing.assert_array_equal(out[:, 0], [0, 1, 0, 1])
    with pytest.raises(InputError, match="was compiled for"):
        tilewright.emulate(source, "k", 4, 32, [out], arch="sm_90a", cluster=4)
    with pytest.raises(InputError, match=r"grid\.x=3 must be a multiple"):
        tilewright.emulate(source, "k", 3, 32, [out], arch="sm_90a")


def test_some_of_the_clusters(compiler: str) -> None:
    out = np.full((8, 64), 99, "u4")
    sync = "CLUSTER_SYNC();"
    report = launch(SWAP.format(sync=sync, last=sync), out, grid=8, blocks=[5])
    assert report.findings == []
    assert report.part is not None
    assert (out[[0, 1, 2, 3, 6, 7]] == 99).all()
    assert (out[4:6] != 99).all()
    with pytest.raises(InputError, match="has 32 blocks"):
        launch("", out, grid=32, cluster=32)
