#pragma once
#include "ptx/cvt.cuh"
#include "tile/epilogue_call.cuh"
#include "tile/wgmma_fragment.cuh"
// What becomes of a warpgroup's sums before they are stored: the epilogue, while they are fp32, and
// the one rounding.
namespace tile {

// Columns that are finished at a time: what a chain of several operands loads for them lies in
// registers beside the sums.
template <class CHAIN>
constexpr int GROUP = sizeof(CHAIN) <= 72 ? 32 : sizeof(CHAIN) <= 96 ? 16 : 8;

// The epilogue on a group's columns of acc[64, 2 * COUNT], from `from` on; this thread's part of
// acc begins at column `col` of D and at `rows`. Where not all of it is INSIDE of D's N columns,
// the epilogue sees for the others one that is the thread's own, where it may load.
template <bool INSIDE, int COLUMNS, bool TURNED, int COUNT, class CHAIN>
__device__ __forceinline__ void finish_group(float (&acc)[COUNT], int from, const int (&rows)[2],
                                             int col, int N, const CHAIN& epilogue) {
#pragma unroll
  for (int i = from / 2; i < (from + GROUP<CHAIN>) / 2; ++i) {
    const int along = col + i / 4 * 8 + i % 2;
    acc[i] = finished<COLUMNS, TURNED>(epilogue, acc[i], acc[i + COUNT / COLUMNS * (COLUMNS - 1)],
                                       rows[i / 2 % 2], INSIDE || along < N ? along : col);
  }
}

// The epilogue on a warpgroup's acc[64, 2 * COUNT] at (row, col) of D[M, N]. With COLUMNS = 2 the
// first half of acc's columns are gates, the second what they gate, and D's arrive in the first.
// TURNED: the product is the transposed one. A condition for each element would keep the compiler
// from loading ahead; without any it would load all at once, and spill.
template <int COLUMNS, bool TURNED, int COUNT, class CHAIN>
__device__ __forceinline__ void finish(float (&acc)[COUNT], int row, int col, int M, int N,
                                       const CHAIN& epilogue) {
  static_assert(2 * COUNT / COLUMNS % GROUP<CHAIN> == 0, "acc has whole groups of columns");
  const bool inside = row + 64 <= M && col + 2 * COUNT / COLUMNS <= N;
  row += wgmma_row(threadIdx.x);
  col += wgmma_col(threadIdx.x);
  if (row >= M || col >= N) return;
  const int rows[2] = {row, row + 8 < M ? row + 8 : row};
#pragma unroll
  for (int from = 0; from < 2 * COUNT / COLUMNS; from += GROUP<CHAIN>) {
    if (inside)
      finish_group<true, COLUMNS, TURNED>(acc, from, rows, col, N, epilogue);
    else if (col + from < N)
      finish_group<false, COLUMNS, TURNED>(acc, from, rows, col, N, epilogue);
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
