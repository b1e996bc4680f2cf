#pragma once
#include "ptx/element.cuh"
// PTX ISA, "Data Movement and Conversion Instructions: cvt": 16 bits to fp32, which is exact.
namespace ptx {

__device__ __forceinline__ float cvt_f32(fp16 element) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(element.bits));
  return value;
}

// bf16 is the upper half of an fp32: no instruction of its own before sm_90.
__device__ __forceinline__ float cvt_f32(bf16 element) {
  return __uint_as_float(unsigned(element.bits) << 16);
}

__device__ __forceinline__ float cvt_f32(float element) { return element; }

}  // namespace ptx
