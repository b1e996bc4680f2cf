#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Data Movement and Conversion Instructions: cp.async" (sm_80 and later).
namespace ptx {

// Each thread copies 16 bytes past L1 (.cg) and asks L2 for the whole 128-byte line.
// Both addresses must be multiples of 16. The bytes are there after a wait and a barrier.
__device__ __forceinline__ void cp_async_cg_16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
               :: "r"(shared_address(shared)), "l"(global) : "memory");
}

// Closes the group of the copies that this thread has issued since its last commit.
__device__ __forceinline__ void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most PENDING of this thread's newest groups are still in flight.
template <int PENDING>
__device__ __forceinline__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

}  // namespace ptx
