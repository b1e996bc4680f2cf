"""What tile/ says of wgmma's operands and results, run from its compiled PTX."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright
from tilewright.emulator.report import Report

ml_dtypes = pytest.importorskip("ml_dtypes", reason="bf16 arrays need ml_dtypes")
pytestmark = pytest.mark.usefixtures("compiler")

Array = npt.NDArray[Any]
THREADS = 128  # of a warpgroup


def run(body: str, includes: str, args: list[Any], params: str, block: int = THREADS) -> Report:
    lines = "".join(f'#include "{name}"\n' for name in includes.split())
    text = f'{lines}extern "C" __global__ void probe({params}) {{\n{body}\n}}\n'
    report = tilewright.emulate(text, "probe", (1,), (block,), args, arch="sm_90a")
    assert report.completed
    assert report.findings == []
    return report


def fragments(n: int) -> Array:
    """acc[thread, register] = 1000 · row + column, by PTX ISA's figure for wgmma.m64nNk16's D."""
    thread, i = np.indices((THREADS, n // 2))
    row = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8
    col = i // 4 * 8 + thread % 4 * 2 + i % 2
    return (1000 * row + col).astype(np.float32)


def test_the_fragments_of_a_warpgroup_cover_its_rows() -> None:
    out = np.full((THREADS, 2), -1, np.int32)
    body = """out[2 * threadIdx.x] = tile::wgmma_row(threadIdx.x);
              out[2 * threadIdx.x + 1] = tile::wgmma_col(threadIdx.x);"""
    run(body, "tile/wgmma_fragment.cuh", [out], "int* out")
    first = fragments(8)[:, 0]
    assert (1000 * out[:, 0] + out[:, 1]).tolist() == first.tolist()
    assert len(set(fragments(64).reshape(-1))) == 64 * 64


@pytest.mark.parametrize(("rows", "cols"), [(64, 64), (41, 64), (64, 24), (1, 2), (100, 200)])
def test_store_writes_what_lies_inside(rows: int, cols: int) -> None:
    out = np.full((rows + 3, cols), np.nan, np.float16)
    acc = np.minimum(fragments(64) % 1000 + fragments(64) // 1000 * 32, 2048)
    body = """
      float mine[32];
      for (int i = 0; i < 32; ++i) mine[i] = acc[threadIdx.x * 32 + i];
      tile::store(out, 3, 0, rows, cols, mine);"""
    run(
        body,
        "ptx/element.cuh tile/wgmma_store.cuh",
        [acc.astype(np.float32), out.view(np.uint16), rows + 3, cols],
        "const float* acc, fp16* out, int rows, int cols",
    )
    row, col = np.indices((rows + 3, cols))
    expected = np.minimum(col + (row - 3) * 32, 2048).astype(np.float16)
    inside = (row >= 3) & (row < 67) & (col < 64)
    assert np.array_equal(out[inside], expected[inside])
    assert np.isnan(out[~inside]).all()


def test_stage_lays_a_panel_out_as_a_swizzled_tma_store_reads_it() -> None:
    """Chunk c of 16 bytes of row r lies at chunk c ^ (r % 8), and no store meets a conflict."""
    acc = fragments(128)
    small = (acc // 1000 * 29 + acc % 1000).astype(np.float32)  # exact in fp16
    out = np.zeros((2, 64, 64), np.float16)
    body = """
      __shared__ __align__(1024) fp16 panels[2][64 * 64];
      float mine[64];
      for (int i = 0; i < 64; ++i) mine[i] = acc[threadIdx.x * 64 + i];
      for (int panel = 0; panel < 2; ++panel) tile::stage(panels[panel], mine, panel);
      __syncthreads();
      for (int i = threadIdx.x; i < 2 * 64 * 64; i += 128) out[i].bits = panels[0][i].bits;"""
    report = run(
        body,
        "tile/wgmma_stage.cuh",
        [small, out.view(np.uint16)],
        "const float* acc, fp16* out",
    )
    panel, row, col = np.indices((2, 64, 64))
    at = (col // 8 ^ row % 8) * 8 + col % 8
    assert np.array_equal(out[panel, row, at], row * 29 + panel * 64 + col)
    stored = [access for access in report.accesses if access.opcode.startswith("stmatrix")]
    assert sum(access.requests for access in stored) == 2 * 4 * 4
    assert all(access.wavefronts == access.wavefronts_ideal for access in stored)


def test_an_epilogue_meets_each_element_inside_once_with_its_place() -> None:
    acc = np.ascontiguousarray(fragments(64))
    seen = np.zeros((50, 40), np.int32)
    source = """
#include "tile/epilogue.cuh"
struct Count {
  int* seen;
  __device__ float operator()(float sum, int row, int col) const {
    atomicAdd(&seen[row * 40 + col], 1);
    return sum - 1000 * (row - 10);
  }
};
struct Negate { __device__ float operator()(float sum, int, int) const { return -sum; } };
extern "C" __global__ void probe(float* acc, int* seen) {
  float mine[32];
  for (int i = 0; i < 32; ++i) mine[i] = acc[threadIdx.x * 32 + i];
  tile::apply(mine, 10, 0, 50, 40, tile::Then<Count, Negate>{{seen}, {}});
  tile::apply(mine, 10, 0, 50, 40, tile::Plain());
  for (int i = 0; i < 32; ++i) acc[threadIdx.x * 32 + i] = mine[i];
}
"""
    before = acc.copy()
    report = tilewright.emulate(source, "probe", (1,), (128,), [acc, seen], arch="sm_90a")
    assert report.findings == []
    inside = (before // 1000 < 40) & (before % 1000 < 40)
    assert np.array_equal(acc[inside], -(before[inside] % 1000))
    assert np.array_equal(acc[~inside], before[~inside])
    assert (seen[10:] == 1).all()
    assert (seen[:10] == 0).all()


def test_a_ring_turns_its_phase_with_every_lap() -> None:
    slots, phases = np.full(11, -1, np.int32), np.full(11, -1, np.int32)
    body = """
      tile::Ring<3> at;
      for (int i = 0; i < 11; ++i, at.advance()) { slots[i] = at.slot; phases[i] = at.phase; }"""
    run(body, "tile/ring.cuh", [slots, phases], "int* slots, int* phases", block=1)
    assert slots.tolist() == [i % 3 for i in range(11)]
    assert phases.tolist() == [i // 3 % 2 for i in range(11)]


def described(bits: int) -> dict[str, int]:
    """The fields of a matrix descriptor, in bytes. PTX ISA, "Matrix Descriptor Format"."""
    return {
        "start": (bits & 0x3FFF) << 4,
        "leading": (bits >> 16 & 0x3FFF) << 4,
        "stride": (bits >> 32 & 0x3FFF) << 4,
        "base": bits >> 49 & 7,
        "swizzle": bits >> 62,
    }


@pytest.mark.parametrize(
    ("major", "rows", "depth", "row", "k", "moved", "leading"),
    [
        ("K", 128, 64, 0, 0, 0, 16),
        ("K", 128, 64, 64, 48, 64 * 128 + 96, 16),
        ("K", 128, 128, 64, 80, 128 * 128 + 64 * 128 + 32, 16),  # the second panel of K
        ("MN", 256, 64, 0, 16, 16 * 128, 64 * 128),
        ("MN", 128, 64, 64, 48, 64 * 128 + 48 * 128, 64 * 128),
        ("MN", 128, 32, 64, 16, 32 * 128 + 16 * 128, 32 * 128),
    ],
)
def test_descriptors(
    major: str, rows: int, depth: int, row: int, k: int, moved: int, leading: int
) -> None:
    out = np.zeros(2, np.uint64)
    body = f"""
      using Part = tile::Operand<bf16, ptx::Major::{major}, {rows}, {depth}>;
      __shared__ __align__(1024) bf16 tiles[{rows} * {depth}];
      out[0] = Part::at(tiles, {row}, {k}).bits;
      out[1] = ptx::shared_address(tiles);"""
    run(body, "tile/operand.cuh", [out], "unsigned long long* out", block=1)
    assert described(int(out[0])) == {
        "start": int(out[1]) + moved,
        "leading": leading,
        "stride": 1024,
        "base": 0,
        "swizzle": 1,
    }


def test_barriers_through_their_wrappers() -> None:
    """A producer of one warp and consumers of three hand eight numbers on through two slots."""
    out = np.full((8, 96), -1, np.int32)
    body = """
      __shared__ int slots[2];
      __shared__ ptx::mbarrier full[2], empty[2];
      if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
          ptx::mbarrier_init(&full[i], 1);
          ptx::mbarrier_init(&empty[i], 96);
        }
        ptx::fence_mbarrier_init();
      }
      __syncthreads();
      tile::Ring<2> at;
      if (threadIdx.x < 32) {
        if (ptx::elect_sync())
          for (int i = 0; i < 8; ++i, at.advance()) {
            ptx::mbarrier_wait_parity(&empty[at.slot], at.phase ^ 1, 1000);
            slots[at.slot] = 10 * i;
            ptx::mbarrier_arrive(&full[at.slot]);
          }
        return;
      }
      for (int i = 0; i < 8; ++i, at.advance()) {
        ptx::mbarrier_wait_parity(&full[at.slot], at.phase);
        out[i * 96 + threadIdx.x - 32] = slots[at.slot];
        ptx::mbarrier_arrive(&empty[at.slot]);
      }"""
    run(body, "ptx/elect.cuh ptx/mbarrier_quiet.cuh tile/ring.cuh", [out], "int* out")
    assert out.tolist() == [[10 * i] * 96 for i in range(8)]
