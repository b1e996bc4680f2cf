#pragma once
// Who holds what when mma computes Ct = Bt * At of tf32, with B in rows of N in shared memory.
//
// mma takes four registers in a row of its first operand, 16 rows by 8 of K: rows r and r + 8 at
// one k, then both four further on. A row of N has no two elements of one column, but it has
// neighbours: let row r be column 2r of B, and row r + 8 column 2r + 1. Then 8 bytes are two of the
// four, and nothing has to be moved between registers. PTX ISA, "Matrix Fragments for mma.m16n8k8".
namespace tile {

// Registers 0 and 1 of Bt[16, 8] are B[k][n], B[k][n + 1]; 2 and 3 the same at k + 4.
__device__ __forceinline__ int bt_k(int lane) { return lane % 4; }
__device__ __forceinline__ int bt_n(int lane) { return lane / 4 * 2; }

// The row of A[16, 8] whose address this lane gives to ldmatrix_x4_pairs, and the column where its
// 4 elements begin: the pairs are At[8, 8] of the first 8 rows and of the next.
__device__ __forceinline__ int at_row(int lane) { return lane % 8 + lane / 16 * 8; }
__device__ __forceinline__ int at_col(int lane) { return lane / 8 % 2 * 4; }

// Sums 0 and 2 of a lane are C[m][n], C[m][n + 1]; 1 and 3 the same at m + 1.
__device__ __forceinline__ int ct_m(int lane) { return lane % 4 * 2; }
__device__ __forceinline__ int ct_n(int lane) { return lane / 4 * 2; }

// A, rows of 128 bytes: every row starts at bank 0, so the chunk moves with every row.
__device__ __forceinline__ int swizzle_a128(int row, int col) { return col ^ ((row & 7) << 2); }

}  // namespace tile
