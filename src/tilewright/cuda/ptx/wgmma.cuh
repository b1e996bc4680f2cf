#pragma once
#include "ptx/element.cuh"
// PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: wgmma" (sm_90a). A warpgroup, four
// warps, calls these together. The products themselves are in wgmma_m64nNk16.cuh, a file for each
// N; tile/wgmma_descriptor.cuh makes the descriptors, tile/wgmma_fragment.cuh says who holds what.
namespace ptx {

// Along which dimension an operand is contiguous: K, or M (of A) and N (of B).
enum class Major { K, MN };

// PTX ISA, "Matrix-descriptor": where an operand lies in shared memory, and what it is.
template <class T, Major MAJOR>
struct Descriptor { unsigned long long bits; };

// Before the first wgmma, and again after ordinary instructions have written its registers.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Closes the group of the products that this warpgroup has issued since its last commit.
__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most PENDING of the newest groups are still running. Before that nobody may
// touch their accumulators, nor overwrite what they read.
template <int PENDING>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}

// No instruction: the compiler, which knows nothing of wgmma's waits, may not move what uses these
// registers across. Called before the first wgmma_fence() and after the last wgmma_wait_group().
template <int COUNT>
__device__ __forceinline__ void wgmma_fence_operands(float (&acc)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(acc[i]) :: "memory");
}

}  // namespace ptx
