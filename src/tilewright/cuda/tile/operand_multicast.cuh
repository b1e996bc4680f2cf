#pragma once
#include "ptx/tma_multicast.cuh"
#include "tile/operand.cuh"
// A tile of A or B that several blocks of a cluster need: each loads one of PARTS and TMA hands it
// to all of them. Every block still expects the bytes of the whole tile.
namespace tile {

// One thread of each of those blocks. `part` is 0 .. PARTS - 1 and `blocks` has a bit for each of
// them. K-major tiles are cut by rows (hopper_rung.py: boxes of ROWS / PARTS), others by panels.
template <class OPERAND, int PARTS, class T>
__device__ __forceinline__ void load_multicast(T* to, const TensorMap& map, ptx::mbarrier* full,
                                               int row, int k, int part, unsigned short blocks) {
  if constexpr (PARTS == 1) return OPERAND::load(to, map, full, row, k);
  constexpr bool K_MAJOR = OPERAND::K_MAJOR;
  constexpr int ALONG = K_MAJOR ? OPERAND::ALONG : OPERAND::ALONG / PARTS;
  constexpr int ACROSS = K_MAJOR ? OPERAND::ACROSS / PARTS : OPERAND::ACROSS;
  static_assert(ALONG % PANEL == 0 && ACROSS % 8 == 0, "a part is whole patterns of 8 rows");
  const int first = K_MAJOR ? part * ACROSS * PANEL : part * ALONG * ACROSS;
  row += part * (K_MAJOR ? ACROSS : ALONG);
#pragma unroll
  for (int i = 0; i < ALONG; i += PANEL)
    ptx::cp_async_bulk_tensor_2d_multicast(to + first + i * OPERAND::ACROSS, map, full, blocks,
                                           K_MAJOR ? k + i : row + i, K_MAJOR ? row : k);
}

}  // namespace tile
