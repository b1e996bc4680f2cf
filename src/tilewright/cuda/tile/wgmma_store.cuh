#pragma once
#include "ptx/cvt.cuh"
#include "tile/wgmma_fragment.cuh"
// From wgmma's accumulators straight to global memory.
namespace tile {

// A warpgroup's acc[64, 2 * COUNT] to (row, col) of C[M, N], as far as it lies inside; N is even.
// Four lanes fill 16 of the 32 bytes of a sector with one instruction.
template <class T, int COUNT>
__device__ __forceinline__ void store(T* C, int row, int col, int M, int N,
                                      const float (&acc)[COUNT]) {
  row += wgmma_row(threadIdx.x);
  col += wgmma_col(threadIdx.x);
#pragma unroll
  for (int i = 0; i < COUNT; i += 2) {
    const int m = row + i / 2 % 2 * 8, n = col + i / 4 * 8;
    if (m < M && n < N)
      *reinterpret_cast<ptx::u32*>(&C[size_t(m) * N + n]) = ptx::cvt_rn_x2<T>(acc[i], acc[i + 1]);
  }
}

}  // namespace tile
