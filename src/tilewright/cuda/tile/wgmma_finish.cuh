#pragma once
#include "ptx/cvt.cuh"
#include "tile/wgmma_fragment.cuh"
// What becomes of a warpgroup's sums before they are stored: the epilogue, while they are fp32, and
// the one rounding.
namespace tile {

// `functor` on acc[64, 2 * COUNT] at (row, col) of D[M, N], and on nothing outside, as it may load
// there. TRANSPOSED: acc belongs to the transposed product, and rows are the functor's columns.
template <bool TRANSPOSED, int COUNT, class FUNCTOR>
__device__ __forceinline__ void finish(float (&acc)[COUNT], int row, int col, int M, int N,
                                       const FUNCTOR& functor) {
  row += wgmma_row(threadIdx.x);
  col += wgmma_col(threadIdx.x);
  const int width[2] = {row < M ? N - col : 0, row + 8 < M ? N - col : 0};
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    const int down = i / 2 % 2, along = i / 4 * 8 + i % 2;
    if (along < width[down])
      acc[i] = TRANSPOSED ? functor(acc[i], col + along, row + down * 8)
                       : functor(acc[i], row + down * 8, col + along);
  }
}

// The same where the first half of acc's columns are gates and the second half what they gate:
// D's columns from `col` on arrive in the first half.
template <int COUNT, class FUNCTOR>
__device__ __forceinline__ void finish_gated(float (&acc)[COUNT], int row, int col, int M, int N,
                                             const FUNCTOR& functor) {
  row += wgmma_row(threadIdx.x);
  col += wgmma_col(threadIdx.x);
  const int width[2] = {row < M ? N - col : 0, row + 8 < M ? N - col : 0};
#pragma unroll
  for (int i = 0; i < COUNT / 2; ++i) {
    const int down = i / 2 % 2, along = i / 4 * 8 + i % 2;
    if (along < width[down])
      acc[i] = functor(acc[i], acc[i + COUNT / 2], row + down * 8, col + along);
  }
}

// The first 4 * PAIRS columns of acc, rounded to T and two a register.
template <class T, int PAIRS, int COUNT>
__device__ __forceinline__ void round_pairs(ptx::u32 (&to)[PAIRS], const float (&acc)[COUNT]) {
  static_assert(2 * PAIRS <= COUNT, "acc has so many columns");
#pragma unroll
  for (int i = 0; i < PAIRS; ++i) to[i] = ptx::cvt_rn_x2<T>(acc[2 * i], acc[2 * i + 1]);
}

}  // namespace tile
