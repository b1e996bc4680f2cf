#pragma once
// PTX ISA, "Floating-Point Instructions: ex2".
namespace ptx {

// 2 to the power of x, to 2 ulp (ISA); below 2^-126 it is 0. Called by epilogues.
__device__ __forceinline__ float ex2_approx_ftz(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

}  // namespace ptx
