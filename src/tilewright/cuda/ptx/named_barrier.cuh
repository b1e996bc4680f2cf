#pragma once
// PTX ISA, "Parallel Synchronization and Communication Instructions: bar", one of the block's 16
// barriers by its number. 0 is the one of __syncthreads(). `threads` counts, in whole warps, those
// that wait and those that only arrive.
namespace ptx {

// Waits until so many threads have come.
__device__ __forceinline__ void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory");
}

// Counts as come, and goes on.
__device__ __forceinline__ void bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads) : "memory");
}

}  // namespace ptx
