#pragma once
#include "tile/wgmma_fragment.cuh"
// From a warpgroup's registers straight to a matrix that lies anyhow in global memory.
namespace tile {

// Where a matrix lies: strides in elements, of either sign.
template <class T>
struct Placed { T* begin; long long row, col; };

// Columns `from` .. `from` + WIDTH - 1 of a tile that begins at (row, col) of D[M, N], as far as
// they lie inside: `pair(i)`, a ushort2 of bits or a float2, is what the thread holds i % 2 * 8
// rows and i / 2 * 8 columns further. VECTOR: D's rows are contiguous and a pair lies at a multiple
// of its size.
template <bool VECTOR, int WIDTH, class T, class PAIR>
__device__ __forceinline__ void store_pairs(Placed<T> to, int row, int col, int from, int M, int N,
                                            PAIR pair) {
  row += wgmma_row(threadIdx.x);
  col += wgmma_col(threadIdx.x) + from;
#pragma unroll
  for (int i = 0; i < WIDTH / 4; ++i) {
    const int m = row + i % 2 * 8, n = col + i / 2 * 8;
    if (m >= M || n >= N) continue;
    T* at = to.begin + m * to.row + n * to.col;
    const auto two = pair(i);
    if constexpr (VECTOR) {
      *reinterpret_cast<decltype(pair(i))*>(at) = two;
    } else {
      *reinterpret_cast<decltype(two.x)*>(at) = two.x;
      if (n + 1 < N) *reinterpret_cast<decltype(two.x)*>(at + to.col) = two.y;
    }
  }
}

}  // namespace tile
