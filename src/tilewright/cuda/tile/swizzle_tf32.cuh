#pragma once
// XOR swizzles of tf32 tiles, whose elements are fp32: where column `col` of row `row` lives inside
// its row. All move whole 16-byte chunks (4 elements), stay inside the row and are their own
// inverse.
namespace tile {

// A, rows of 64 bytes: two rows fill the 32 banks, so the chunk moves with every second row.
__device__ __forceinline__ int swizzle_a(int row, int col) { return col ^ (((row >> 1) & 3) << 2); }

// B transposed, rows of 64 bytes. Among the 8 rows of an ldmatrix it is swizzle_a; across them it
// moves on, so that lanes that store to every fourth row meet all four chunks instead of two.
__device__ __forceinline__ int swizzle_bt(int row, int col) {
  return col ^ ((((row >> 1) ^ (row >> 3)) & 3) << 2);
}

// B as it lies, rows of 128 bytes or more: the four rows that a warp reads at once, eight
// neighbours of each, lie in four different groups of eight banks.
__device__ __forceinline__ int swizzle_b(int row, int col) { return col ^ ((row & 3) << 3); }

}  // namespace tile
