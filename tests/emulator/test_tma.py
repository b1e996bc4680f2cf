"""TMA: what copies move, and what is found where a fence, a wait or an arrival is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.tensormap import tiled

HERE = Path(__file__).parent
SCHEDULES: list[dict[str, Any]] = [{}, *({"schedule": "random", "seed": s} for s in (1, 2, 3))]
pytestmark = pytest.mark.usefixtures("compiler")


def launch(text: str, grid: Any, block: int, args: list[Any], **how: Any) -> Any:
    source = '#include "hopper.cuh"\n' + text
    return tilewright.emulate(
        source, "k", grid, block, args, arch="sm_90a", include_path=[str(HERE)], **how
    )


def kinds(report: Any) -> set[str]:
    return {finding.kind for finding in report.findings}


# --- one tile in and out ------------------------------------------------------------------

TILE = """
extern "C" __global__ void k(TENSOR in, TENSOR out) {
  __shared__ alignas(1024) u16 tile[64 * 32]; __shared__ u64 full;
  int x = blockIdx.x * 64, y = blockIdx.y * 32, t = threadIdx.x;
  if (t == 0) { init(&full, 1); /*inited*/ FENCE_INIT(); /**/ }
  /*known*/ __syncthreads(); /**/
  if (t == 0) { expect(&full, 4096); load_2d(tile, &in, x, y, &full); }
  /*full*/ wait(&full, 0); /**/
  for (int i = t; i < 64 * 32; i += blockDim.x) tile[i] += 1;
  /*proxy*/ FENCE_PROXY(); /**/
  /*written*/ __syncthreads(); /**/
  if (t == 0) { store_2d(&out, x, y, tile); COMMIT(); /*read*/ WAIT_READ(0); /**/ }
  /*reuse*/
}
"""
MUTANTS = [  # what is put in the place of what, what is found
    ("inited", "", set()),  # a barrier is enough within a block
    ("inited", "FENCE_PROXY();", set()),
    ("known", "", {"race"}),
    ("full", "", {"async-read", "copy-at-exit"}),
    ("full", "if (t < 32) wait(&full, 0); __syncthreads();", set()),
    ("full", "if (t < 32) wait(&full, 0);", {"race"}),
    ("proxy", "", {"proxy-fence"}),
    ("proxy", "if (t == 0) FENCE_PROXY();", {"proxy-fence"}),
    ("written", "", {"race"}),
    ("written", "__syncthreads(); if (t == 0) FENCE_PROXY();", set()),
    ("read", "", {"copy-at-exit"}),
    ("read", "WAIT_ALL(0);", set()),
    ("reuse", "tile[t] = 0;", {"race"}),
    ("reuse", "__syncthreads(); tile[t] = 0;", set()),
]  # fmt: skip


def mutant(text: str, name: str, instead: str) -> str:
    head, mark, rest = text.partition(f"/*{name}*/")
    assert mark
    return head + instead + (rest.partition("/**/")[2] if "/**/" in rest else rest)


@pytest.mark.parametrize("how", SCHEDULES)
@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_a_tile_goes_in_and_out(how: dict[str, Any], swizzle: str) -> None:
    """Boxes beyond the edges come as zeros and are cut when they go."""
    a = np.arange(100 * 96, dtype="u2").reshape(100, 96)
    out = np.zeros_like(a)
    maps = [tiled(one, (32, 64), swizzle=swizzle) for one in (a, out)]
    report = launch(TILE, (2, 4), 128, maps, **how)
    assert report.findings == []
    assert report.completed
    np.testing.assert_array_equal(out, a + 1)


@pytest.mark.parametrize("how", SCHEDULES[:2])
@pytest.mark.parametrize(("name", "instead", "expected"), MUTANTS)
def test_what_a_tile_needs(
    name: str, instead: str, expected: set[str], how: dict[str, Any]
) -> None:
    a = np.arange(128 * 64, dtype="u2").reshape(128, 64)
    out = np.zeros_like(a)
    maps = [tiled(one, (32, 64)) for one in (a, out)]
    report = launch(mutant(TILE, name, instead), (1, 4), 128, maps, **how)
    found = kinds(report)
    assert expected <= found if expected else not found, report.findings


def test_a_wrong_number_of_bytes_is_a_deadlock() -> None:
    a = np.zeros((128, 64), "u2")
    maps = [tiled(a, (32, 64)), tiled(np.zeros_like(a), (32, 64))]
    more = launch(TILE.replace("4096", "4112"), (1, 4), 128, maps)
    assert not more.completed
    (found,) = more.findings
    assert found.kind == "deadlock"
    assert "16 bytes have not" in found.message
    less = launch(TILE.replace("4096", "4080"), (1, 4), 128, maps)
    assert "16 bytes more than it was told to expect" in less.findings[0].message


# --- a ring -------------------------------------------------------------------------------

RING = """
#define STAGES 3
extern "C" __global__ void k(TENSOR in, u32 *out, int steps) {
  __shared__ alignas(1024) u32 slot[STAGES][32 * 8]; __shared__ u64 full[STAGES], empty[STAGES];
  int t = threadIdx.x;
  if (t == 0) {
    for (int s = 0; s < STAGES; s++) { init(&full[s], 1); init(&empty[s], 2); }
    FENCE_INIT();
  }
  __syncthreads();
  if (t < 32) {
    if (t == 0)
      for (int k = 0; k < steps; k++) {
        int s = k % STAGES, phase = k / STAGES & 1;
        /*empty*/ wait(&empty[s], phase ^ 1); /**/
        expect(&full[s], /*bytes*/ 1024 /**/);
        load_2d(slot[s], &in, 0, (blockIdx.x * steps + k) * 8, &full[s]);
      }
  } else {
    u32 sum = 0;
    for (int k = 0; k < steps; k++) {
      int s = k % STAGES, phase = k / STAGES & 1;
      /*full*/ wait(&full[s], phase); /**/
      for (int i = t - 32; i < 256; i += 64) sum += slot[s][i];
      __syncwarp();
      /*arrive*/ if (t % 32 == 0) arrive(&empty[s]); /**/
    }
    out[blockIdx.x * 64 + t - 32] = sum;
  }
}
"""


def ring(text: str, steps: int = 7, **how: Any) -> tuple[Any, bool]:
    a = np.random.default_rng(0).integers(0, 1000, (3 * steps * 8, 32)).astype("u4")
    out = np.zeros((3, 64), "u4")
    report = launch(text, 3, 96, [tiled(a, (8, 32), swizzle="128B"), out, np.int32(steps)], **how)
    return report, int(out.sum()) == int(a.sum())


@pytest.mark.parametrize("how", SCHEDULES)
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 9])
def test_a_ring(steps: int, how: dict[str, Any]) -> None:
    report, right = ring(RING, steps, **how)
    assert report.findings == []
    assert right


@pytest.mark.parametrize("how", SCHEDULES[:3])
@pytest.mark.parametrize(
    ("name", "instead", "expected"),
    [
        ("empty", "", {"race"}),
        ("empty", "wait(&empty[s], phase);", {"deadlock"}),
        ("full", "", {"async-read"}),
        ("full", "if (t == 32) wait(&full[s], phase);", {"race", "async-read"}),
        ("arrive", "", {"deadlock"}),
        ("bytes", "1040", {"deadlock"}),
    ],
)
def test_what_a_ring_needs(
    name: str, instead: str, expected: set[str], how: dict[str, Any]
) -> None:
    report, _ = ring(mutant(RING, name, instead), **how)
    assert expected & kinds(report), report.findings


def test_the_race_says_who_and_where() -> None:
    report, _ = ring(mutant(RING, "empty", ""))
    found = next(f for f in report.findings if f.kind == "race")
    assert found.other_line is not None
    assert "cp.async.bulk.tensor.2d" in found.message
