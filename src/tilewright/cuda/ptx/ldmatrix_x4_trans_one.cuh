#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Warp Level Matrix Load Instruction: ldmatrix" (sm_75 and later).
namespace ptx {

// Four 8x8 matrices of 16 bits, each transposed on the way; lane l gives the address of row l % 8
// of matrix l / 8. Called by the whole warp for one operand of four registers: A of mma_m16n8k16
// where the matrix lies column by column.
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&frag)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(frag[0]), "=r"(frag[1]), "=r"(frag[2]), "=r"(frag[3])
               : "r"(shared_address(row)) : "memory");
}

}  // namespace ptx
