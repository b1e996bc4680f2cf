#pragma once
#include "ptx/st_shared.cuh"
#include "tile/wgmma_fragment.cuh"
// From wgmma's accumulators to shared memory as fp32: 64 rows of 32 columns, as a TMA store with
// the 128-byte swizzle takes them.
namespace tile {

// A warpgroup's columns 32 * panel .. 32 * panel + 31 of acc[64, 2 * COUNT], to [64][32] elements
// that begin at a multiple of 1024 bytes. `panel` must be known after unrolling. Half a warp stores
// 4 rows at a time, whose chunks of 16 bytes the swizzle moves by 0 to 3 places: odd rows take the
// far half of the panel first, so that the four fill the 32 banks.
template <int COUNT>
__device__ __forceinline__ void stage_fp32(float* to, const float (&acc)[COUNT], int panel) {
  static_assert(COUNT % 16 == 0, "acc has whole panels of 32 columns");
  const int row = wgmma_row(threadIdx.x), lane_col = wgmma_col(threadIdx.x);
  const bool odd = row % 2;
#pragma unroll
  for (int down = 0; down < 2; ++down) {
    float* line = to + (row + down * 8) * 32;
#pragma unroll
    for (int turn = 0; turn < 4; ++turn) {
      const float* near = &acc[panel * 16 + turn * 4 + down * 2];
      const float* far = &acc[panel * 16 + (turn ^ 2) * 4 + down * 2];
      const int col = (odd ? turn ^ 2 : turn) * 8 + lane_col;
      ptx::st_shared_v2(line + (col ^ (row & 7) << 2), odd ? far[0] : near[0],
                        odd ? far[1] : near[1]);
    }
  }
}

}  // namespace tile
