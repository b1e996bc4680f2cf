#pragma once
// PTX ISA, "Floating-Point Instructions: rcp".
namespace ptx {

// 1 / x, to 1 ulp (ISA); what would lie below 2^-126 is 0. Called by epilogues.
__device__ __forceinline__ float rcp_approx_ftz(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}

}  // namespace ptx
