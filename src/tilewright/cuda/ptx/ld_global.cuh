#pragma once
// PTX ISA, "Data Movement and Conversion Instructions: ld", from global memory.
namespace ptx {

// 16 bytes past L1 (.cg), 16-byte aligned. Called by probes that measure L2.
__device__ __forceinline__ uint4 ld_global_cg(const uint4* from) {
  uint4 got;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(got.x), "=r"(got.y), "=r"(got.z), "=r"(got.w) : "l"(from) : "memory");
  return got;
}

}  // namespace ptx
