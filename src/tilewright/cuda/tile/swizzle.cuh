#pragma once
// XOR swizzles: where column `col` of row `row` of a 16-bit tile lives inside its row. All move
// whole 16-byte chunks (8 elements), stay inside the row and are their own inverse. Rows that are
// a multiple of 8 apart move alike, so a pointer may step from one to the other.
//
// swizzle_a: which chunk of its row lies in each quarter of 64 bytes     bank groups of an ldmatrix
//   row 0, 1   0 1 2 3      row 4, 5   2 3 0 1                           column 0, rows 0..7:
//   row 2, 3   1 0 3 2      row 6, 7   3 2 1 0                           0 4 1 5 2 6 3 7
namespace tile {

// Rows of 64 bytes: two rows fill the 32 banks, so the chunk moves with every second row.
__device__ __forceinline__ int swizzle_a(int row, int col) { return col ^ (((row >> 1) & 3) << 3); }

// Rows of 128 or 256 bytes: every row starts at bank 0, so the chunk moves with every row.
__device__ __forceinline__ int swizzle_b(int row, int col) { return col ^ ((row & 7) << 3); }

// C staged in rows of 128 or 256 bytes: the four lanes that own a row stay in one chunk, and the
// eight rows of an mma accumulator land in eight different chunks.
__device__ __forceinline__ int swizzle_c(int row, int col) { return col ^ ((row & 7) << 3); }

}  // namespace tile
