#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Parallel Synchronization and Communication Instructions: elect.sync" (sm_90 and later).
namespace ptx {

// True in one lane of the warp, always the same. The whole warp calls it. The compiler knows that
// one lane is left, which it doesn't of `lane == 0`: it then issues TMA without a loop over lanes.
__device__ __forceinline__ bool elect_sync() {
  u32 elected;
  asm volatile("{ .reg .pred p;\n"
               "elect.sync _|p, 0xffffffff;\n"
               "selp.u32 %0, 1, 0, p; }"
               : "=r"(elected));
  return elected;
}

}  // namespace ptx
