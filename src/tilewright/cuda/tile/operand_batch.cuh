#pragma once
#include "ptx/tma_3d.cuh"
#include "tile/operand.cuh"
// A tile of one matrix of a batch, as boxes of a map of rank 3: whole, in two halves that lie apart
// (columns of a gate and of what it gates), or shared by the blocks of a cluster.
namespace tile {

// How an OPERAND is cut: boxes of HEIGHT rows of M or N, which the matrix may have in two places.
// gemm/kernels/wgmma_step.py makes the maps whose boxes these are.
template <class OPERAND, int ROWS, int PARTS, bool HALVES>
struct Boxes {
  static constexpr int COUNT = !OPERAND::K_MAJOR ? ROWS / PANEL : HALVES && PARTS == 1 ? 2 : PARTS;
  static constexpr int EACH = COUNT / PARTS, HEIGHT = ROWS / COUNT;
  static constexpr int DEPTH = OPERAND::BYTES / ROWS / 2;  // of K
  static_assert(EACH * PARTS == COUNT && HEIGHT * COUNT == ROWS && HEIGHT % 8 == 0,
                "each block loads as many boxes of whole patterns");
  static_assert(!HALVES || COUNT % 2 == 0, "no box reaches into both halves");

  // One thread: boxes `part` * EACH and on of the tile. Its rows begin at `row` of the matrix and,
  // with HALVES, those of its second half at `second`. They land in every block of `blocks`, a bit
  // each, if PARTS > 1; each of these expects the bytes of the whole tile on `full`.
  template <class T>
  static __device__ __forceinline__ void load(T* to, const TensorMap& map, ptx::mbarrier* full,
                                              int row, int second, int k, int matrix, int part,
                                              unsigned short blocks) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int inside = (part * EACH + i) * HEIGHT;
      const bool behind = HALVES && inside >= ROWS / 2;
      const int at = behind ? second + inside - ROWS / 2 : row + inside;
      if constexpr (OPERAND::K_MAJOR) {
#pragma unroll
        for (int d = 0; d < DEPTH; d += PANEL)
          copy(to + d * ROWS + inside * PANEL, map, full, blocks, k + d, at, matrix);
      } else {
        copy(to + inside * DEPTH, map, full, blocks, at, k, matrix);
      }
    }
  }

 private:
  static __device__ __forceinline__ void copy(void* to, const TensorMap& map, ptx::mbarrier* full,
                                              unsigned short blocks, int x, int y, int z) {
    if constexpr (PARTS == 1) ptx::cp_async_bulk_tensor_3d(to, map, full, x, y, z);
    else ptx::cp_async_bulk_tensor_3d_multicast(to, map, full, blocks, x, y, z);
  }
};

}  // namespace tile
