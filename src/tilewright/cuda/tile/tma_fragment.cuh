#pragma once
#include "ptx/ldmatrix.cuh"
#include "ptx/ldmatrix_x4_pairs.cuh"
#include "ptx/ldmatrix_x4_trans.cuh"
#include "tile/fragment.cuh"
#include "tile/operand.cuh"
#include "tile/swizzle.cuh"
// Fragments of mma.m16n8k16 from tiles that TMA has laid out: rows of 128 bytes, its 128-byte
// swizzle, which is swizzle_b. The whole warp calls these.
namespace tile {

// The 8 elements that begin at (row, k), along the dimension in which the operand is contiguous.
template <class OPERAND, class T>
__device__ __forceinline__ const T* chunk(const T* tile, int row, int k) {
  const int along = OPERAND::K_MAJOR ? k : row, across = OPERAND::K_MAJOR ? row : k;
  return tile + along / PANEL * OPERAND::ACROSS * PANEL + across * PANEL +
         swizzle_b(across, along % PANEL);
}

// A[16, 16] at (row, k); A is K-major.
template <class OPERAND, class T>
__device__ __forceinline__ void a_fragment(ptx::u32 (&frag)[4], const T* tile, int row, int k) {
  static_assert(OPERAND::K_MAJOR, "ldmatrix takes A as it lies");
  const int lane = threadIdx.x % 32;
  ptx::ldmatrix_x4(frag, chunk<OPERAND>(tile, row + ldmatrix_row(lane), k + ldmatrix_col(lane)));
}

// B[16, 16] at (k, col), the first 8 columns and the next; transposed on the way unless K-major.
template <class OPERAND, class T>
__device__ __forceinline__ void b_fragments(ptx::u32 (&left)[2], ptx::u32 (&right)[2],
                                            const T* tile, int col, int k) {
  const int lane = threadIdx.x % 32;
  if constexpr (OPERAND::K_MAJOR)
    ptx::ldmatrix_x4_pairs(left, right, chunk<OPERAND>(tile, col + lane / 16 * 8 + lane % 8,
                                                       k + lane / 8 % 2 * 8));
  else
    ptx::ldmatrix_x4_trans(left, right, chunk<OPERAND>(tile, col + ldmatrix_col(lane),
                                                       k + ldmatrix_row(lane)));
}

}  // namespace tile
