#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Data Movement and Conversion Instructions: ld", from a 32-bit shared-memory address.
namespace ptx {

// Four fp32 elements, 16-byte aligned. Called by kernels whose addresses are a thread's own one
// plus constants: the compiler makes the constants part of the instruction.
__device__ __forceinline__ void ld_shared_v4(float* to, u32 shared) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(shared) : "memory");
}

}  // namespace ptx
