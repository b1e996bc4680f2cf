#pragma once
// Who holds what of tf32: the maps between a lane of a warp and the elements of ldmatrix and mma.
// ldmatrix moves 16 bytes a row and knows no type, so its 8x8 matrices are 8x4 elements here.
// Pure index arithmetic; PTX ISA, "Matrix Fragments for mma.m16n8k8".
namespace tile {

// The row whose address this lane gives to ldmatrix_x4, and the column where its 4 elements begin.
// Of A[16, 8] the four registers come out in the order that mma wants; of B transposed, Bt[16, 8],
// registers 0 and 2 are B[8, 8] for the first 8 columns of C and 1 and 3 for the next 8.
__device__ __forceinline__ int ldmatrix_row(int lane) { return lane % 16; }
__device__ __forceinline__ int ldmatrix_col(int lane) { return lane / 16 * 4; }

// Register i of a lane's part of B[8, 8] is element (row + i * 4, col).
__device__ __forceinline__ int b_row(int lane) { return lane % 4; }
__device__ __forceinline__ int b_col(int lane) { return lane / 4; }

// Register i of a lane's accumulators is element (row + i / 2 * 8, col + i % 2) of C[16, 8].
__device__ __forceinline__ int acc_row(int lane) { return lane / 4; }
__device__ __forceinline__ int acc_col(int lane) { return lane % 4 * 2; }

}  // namespace tile
