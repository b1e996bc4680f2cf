#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Warp Level Matrix Store Instruction: stmatrix" (sm_90 and later).
// The whole warp calls these together. A row is 8 elements of 16 bits, 16-byte aligned.
namespace ptx {

// Four 8x8 matrices; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void stmatrix_x4(void* row, const u32 (&frag)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(shared_address(row)), "r"(frag[0]), "r"(frag[1]), "r"(frag[2]),
                  "r"(frag[3]) : "memory");
}

// Four 8x8 matrices, each transposed on the way.
__device__ __forceinline__ void stmatrix_x4_trans(void* row, const u32 (&frag)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(shared_address(row)), "r"(frag[0]), "r"(frag[1]), "r"(frag[2]),
                  "r"(frag[3]) : "memory");
}

}  // namespace ptx
