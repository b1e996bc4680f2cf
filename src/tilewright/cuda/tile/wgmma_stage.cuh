#pragma once
#include "ptx/cvt.cuh"
#include "ptx/stmatrix.cuh"
#include "tile/fragment.cuh"
#include "tile/swizzle.cuh"
// From wgmma's accumulators to shared memory, as a TMA store of 64 x 64 elements with the 128-byte
// swizzle takes them: without bank conflicts.
namespace tile {

// A warpgroup's columns 64 * panel .. 64 * panel + 63 of acc[64, 2 * COUNT], to [64][64] elements
// that begin at a multiple of 1024 bytes. `panel` must be known after unrolling.
template <class T, int COUNT>
__device__ __forceinline__ void stage(T* to, const float (&acc)[COUNT], int panel) {
  static_assert(COUNT % 32 == 0, "acc has whole panels of 64 columns");
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + ldmatrix_row(lane);
#pragma unroll
  for (int col = 0; col < 64; col += 16) {
    const float* sums = &acc[(panel * 64 + col) / 2];
    ptx::u32 frag[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) frag[i] = ptx::cvt_rn_x2<T>(sums[2 * i], sums[2 * i + 1]);
    ptx::stmatrix_x4(to + row * 64 + swizzle_c(row, col + ldmatrix_col(lane)), frag);
  }
}

}  // namespace tile
