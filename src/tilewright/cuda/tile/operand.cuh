#pragma once
#include "ptx/tma.cuh"
#include "tile/wgmma_descriptor.cuh"
// A tile of A or B on its way from a tensor map to wgmma: where TMA puts it, where wgmma finds it.
// ladder/hopper_rung.py makes the maps whose boxes these are. A tile begins at a multiple of 1024.
//
//   Major::K    A[M, K] or B[N, K] in memory   panels [ROWS][64 of K]    boxes of 64 x ROWS
//   Major::MN   A[K, M] or B[K, N] in memory   panels [DEPTH][64 of M/N] boxes of 64 x DEPTH
namespace tile {

// ROWS of M (of A) or N (of B), DEPTH of K. (Macros of the rung table, as BK, are no names here.)
template <class T, ptx::Major MAJOR, int ROWS, int DEPTH>
struct Operand {
  static constexpr bool K_MAJOR = MAJOR == ptx::Major::K;
  static constexpr int ALONG = K_MAJOR ? DEPTH : ROWS;    // elements of the contiguous dimension
  static constexpr int ACROSS = K_MAJOR ? ROWS : DEPTH;   // rows of 128 bytes in a panel
  static constexpr int BYTES = ROWS * DEPTH * sizeof(T);  // what its copies bring to the barrier
  static_assert(sizeof(T) == 2 && ALONG % PANEL == 0 && ACROSS % 8 == 0 && ACROSS <= 256,
                "boxes are 64 elements of 16 bits by 8 to 256 rows");

  // One thread: the tile that begins at (row, k) of the matrix; its bytes complete on `full`.
  static __device__ __forceinline__ void load(T* to, const TensorMap& map, ptx::mbarrier* full,
                                              int row, int k) {
#pragma unroll
    for (int i = 0; i < ALONG; i += PANEL)
      ptx::cp_async_bulk_tensor_2d(to + i * ACROSS, map, full, K_MAJOR ? k + i : row + i,
                                   K_MAJOR ? row : k);
  }

  // For one wgmma: its rows from `row` on, a multiple of 8 (K-major) or 64, and k .. k + 15.
  static __device__ __forceinline__ ptx::Descriptor<T, MAJOR> at(const T* tile, int row, int k) {
    const int along = K_MAJOR ? k : row, across = K_MAJOR ? row : k;
    const int moved = along / PANEL * ACROSS * PANEL + across * PANEL + along % PANEL;
    return descriptor<MAJOR, ACROSS * 128>(tile, moved);
  }
};

}  // namespace tile
