#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Data Movement and Conversion Instructions: st", to shared memory.
namespace ptx {

// Two fp32 elements, 8-byte aligned. Called where a thread chooses between addresses and values:
// the compiler would make two instructions of it, which half of the banks wait for.
__device__ __forceinline__ void st_shared_v2(float* to, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
               :: "r"(shared_address(to)), "f"(first), "f"(second) : "memory");
}

}  // namespace ptx
