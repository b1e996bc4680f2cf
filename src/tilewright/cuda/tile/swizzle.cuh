#pragma once
// XOR swizzles: where column `col` of row `row` of a 16-bit tile lives inside its row. All move
// whole 16-byte chunks (8 elements), stay inside the row and are their own inverse. Rows that are
// a multiple of 8 apart move alike, so a pointer may step from one to the other.
namespace tile {

// Rows of 64 bytes: two rows fill the 32 banks, so the chunk moves with every second row.
__device__ __forceinline__ int swizzle_a(int row, int col) { return col ^ (row >> 1 & 3) << 3; }

// Rows of 256 bytes: every row starts at bank 0, so the chunk moves with every row.
__device__ __forceinline__ int swizzle_b(int row, int col) { return col ^ (row & 7) << 3; }

// C staged in rows of 256 bytes: the four lanes that own a row stay in one chunk, and the
// eight rows of an mma accumulator land in eight different chunks.
__device__ __forceinline__ int swizzle_c(int row, int col) { return col ^ (row & 7) << 3; }

}  // namespace tile
