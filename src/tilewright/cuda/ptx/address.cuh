#pragma once
// PTX ISA, "State Spaces" and "cvta": the 32-bit address of a pointer into shared memory.
namespace ptx {

using u32 = unsigned int;

// Called by every wrapper that takes a shared-memory operand.
__device__ __forceinline__ u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

}  // namespace ptx
