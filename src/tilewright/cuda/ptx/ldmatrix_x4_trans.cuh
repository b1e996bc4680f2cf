#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Warp Level Matrix Load Instruction: ldmatrix" (sm_75 and later).
// Apart from ldmatrix.cuh: rungs that do not call it keep their hash, and their measurements.
namespace ptx {

// Four 8x8 matrices, each transposed on the way; lane l gives the address of row l % 8 of matrix
// l / 8. Called by the whole warp for two fragments of B that lie side by side in a row.
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&left)[2], u32 (&right)[2],
                                                  const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(left[0]), "=r"(left[1]), "=r"(right[0]), "=r"(right[1])
               : "r"(shared_address(row)) : "memory");
}

}  // namespace ptx
