#pragma once
#include "tile/wgmma_fragment.cuh"
// The epilogue is a seam: a value with operator()(sum, row, col) that says what becomes of the sum
// at (row, col) of C. It owns its own operands, such as a bias or a residual, and loads them there.
namespace tile {

// C is the product itself.
struct Plain {
  __device__ __forceinline__ float operator()(float sum, int, int) const { return sum; }
};

// First one epilogue, then another.
template <class FIRST, class SECOND>
struct Then {
  FIRST first;
  SECOND second;
  __device__ __forceinline__ float operator()(float sum, int row, int col) const {
    return second(first(sum, row, col), row, col);
  }
};

// A warpgroup's acc[64, 2 * COUNT] at (row, col) of C[M, N]; what lies outside is left as it is, so
// that the epilogue never loads there.
template <int COUNT, class EPILOGUE>
__device__ __forceinline__ void apply(float (&acc)[COUNT], int row, int col, int M, int N,
                                      const EPILOGUE& epilogue) {
  row += wgmma_row(threadIdx.x);
  col += wgmma_col(threadIdx.x);
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    const int m = row + i / 2 % 2 * 8, n = col + i / 4 * 8 + i % 2;
    if (m < M && n < N) acc[i] = epilogue(acc[i], m, n);
  }
}

}  // namespace tile
