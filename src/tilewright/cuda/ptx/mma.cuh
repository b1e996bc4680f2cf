#pragma once
#include "ptx/address.cuh"
#include "ptx/element.cuh"
// PTX ISA, "Matrix multiply-accumulate: mma", shape m16n8k16 (sm_80 and later).
// acc[16, 8] += a[16, 16] * b[16, 8]; one warp, fp32 accumulators; tile/fragment.cuh says
// which addresses ldmatrix needs to fill a and b, and which elements acc holds. T names the
// type of the 16-bit operands.
namespace ptx {

template <class T>
__device__ void mma_m16n8k16(float (&acc)[4], const u32 (&a)[4], const u32 (&b)[2]);

// Not volatile: the result is all there is, and the compiler may schedule it freely.
template <>
__device__ __forceinline__ void mma_m16n8k16<bf16>(float (&acc)[4], const u32 (&a)[4],
                                                         const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <>
__device__ __forceinline__ void mma_m16n8k16<fp16>(float (&acc)[4], const u32 (&a)[4],
                                                         const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace ptx
