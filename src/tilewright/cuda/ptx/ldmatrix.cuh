#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Warp Level Matrix Load Instruction: ldmatrix" (sm_75 and later).
// The whole warp calls these together. A row is 8 elements of 16 bits, 16-byte aligned.
namespace ptx {

// Four 8x8 matrices; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix_x4(u32 (&frag)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(frag[0]), "=r"(frag[1]), "=r"(frag[2]), "=r"(frag[3])
               : "r"(shared_address(row)) : "memory");
}

// Two 8x8 matrices, each transposed on the way; lanes 0..15 give the rows.
__device__ __forceinline__ void ldmatrix_x2_trans(u32 (&frag)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(frag[0]), "=r"(frag[1]) : "r"(shared_address(row)) : "memory");
}

}  // namespace ptx
