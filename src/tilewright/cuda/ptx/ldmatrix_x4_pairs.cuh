#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Warp Level Matrix Load Instruction: ldmatrix" (sm_75 and later).
namespace ptx {

// Four 8x8 matrices of 16 bits, as two pairs; lane l gives the address of row l % 8 of matrix l / 8.
// Called by the whole warp for two operands that take two registers each.
__device__ __forceinline__ void ldmatrix_x4_pairs(u32 (&first)[2], u32 (&second)[2],
                                                  const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(first[0]), "=r"(first[1]), "=r"(second[0]), "=r"(second[1])
               : "r"(shared_address(row)) : "memory");
}

}  // namespace ptx
