#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Matrix multiply-accumulate: mma", shape m16n8k8 of .tf32 (sm_80 and later).
namespace ptx {

// acc[16, 8] += a[16, 8] * b[8, 8]; one warp, fp32 accumulators. Of each operand's fp32 bits the
// low 13 are ignored. tile/fragment_tf32.cuh says who holds which element.
// Not volatile: the result is all there is, and the compiler may schedule it freely.
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&acc)[4], const u32 (&a)[4],
                                                 const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace ptx
