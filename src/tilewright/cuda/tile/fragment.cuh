#pragma once
// Who holds what: the maps between a lane of a warp and the elements of ldmatrix and mma.
// Pure index arithmetic; PTX ISA, "Matrix Fragments for mma.m16n8k16".
namespace tile {

// The row of A[16, 16] whose address this lane gives to ldmatrix_x4, and the column where its
// 8 elements begin: the four registers then come out in the order that mma wants for A. For
// B[16, 8] and ldmatrix_x2_trans the row is the same, and the column is 0.
__device__ __forceinline__ int ldmatrix_row(int lane) { return lane % 16; }
__device__ __forceinline__ int ldmatrix_col(int lane) { return lane / 16 * 8; }

// Register i of a lane's accumulators is element (row + i / 2 * 8, col + i % 2) of C[16, 8].
__device__ __forceinline__ int acc_row(int lane) { return lane / 4; }
__device__ __forceinline__ int acc_col(int lane) { return lane % 4 * 2; }

}  // namespace tile
