#pragma once
#include "ptx/address.cuh"
#include "ptx/element.cuh"
// PTX ISA, "Data Movement and Conversion Instructions: cvt" (packed forms: sm_80 and later).
namespace ptx {

// Two fp32 values rounded to nearest even and packed; `low` lands at the lower address.
template <class T>
__device__ u32 cvt_rn_x2(float low, float high);

template <>
__device__ __forceinline__ u32 cvt_rn_x2<bf16>(float low, float high) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

template <>
__device__ __forceinline__ u32 cvt_rn_x2<fp16>(float low, float high) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

}  // namespace ptx
