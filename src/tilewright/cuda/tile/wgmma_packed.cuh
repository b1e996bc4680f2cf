#pragma once
#include "ptx/cvt.cuh"
#include "ptx/stmatrix.cuh"
#include "tile/fragment.cuh"
#include "tile/swizzle.cuh"
// wgmma's accumulators rounded and in pairs: half as many registers, so that a finished tile of C
// can wait there for its store while the next one's products are on their way.
namespace tile {

// A warpgroup's acc[64, 2 * COUNT] as elements of T, two a register.
template <class T, int COUNT>
__device__ __forceinline__ void pack(ptx::u32 (&to)[COUNT / 2], const float (&acc)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT / 2; ++i) to[i] = ptx::cvt_rn_x2<T>(acc[2 * i], acc[2 * i + 1]);
}

// Columns 64 * panel .. 64 * panel + 63 of what pack() left, to [64][64] elements in shared memory
// that begin at a multiple of 1024 bytes, as a TMA store with the 128-byte swizzle takes them:
// without bank conflicts. `panel` must be known after unrolling.
template <class T, int COUNT>
__device__ __forceinline__ void stage(T* to, const ptx::u32 (&packed)[COUNT], int panel) {
  static_assert(COUNT % 16 == 0, "the pairs make whole panels of 64 columns");
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + ldmatrix_row(lane);
#pragma unroll
  for (int col = 0; col < 64; col += 16) {
    ptx::u32 frag[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) frag[i] = packed[(panel * 64 + col) / 4 + i];
    ptx::stmatrix_x4(to + row * 64 + swizzle_c(row, col + ldmatrix_col(lane)), frag);
  }
}

}  // namespace tile
