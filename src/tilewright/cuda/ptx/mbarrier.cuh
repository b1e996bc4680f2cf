#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier" (sm_90 for what
// counts bytes). A phase completes once `arrivals` have come and no announced byte is missing;
// phases alternate between parity 0 and 1, and a fresh barrier is in its phase of parity 0.
namespace ptx {

using mbarrier = unsigned long long;                  // 64 opaque bits in shared memory

// One thread, before anybody else touches the barrier; a fence and a barrier of the block follow.
__device__ __forceinline__ void mbarrier_init(mbarrier* bar, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :: "r"(shared_address(bar)), "r"(arrivals) : "memory");
}

// The thread that initialised barriers, once after the last: TMA and the cluster see them then.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// One thread: its memory may be used for something else from now on.
__device__ __forceinline__ void mbarrier_inval(mbarrier* bar) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(shared_address(bar)) : "memory");
}

// Each calling thread arrives once; what it did before is visible to who waits for the phase.
__device__ __forceinline__ void mbarrier_arrive(mbarrier* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(bar)) : "memory");
}

// The producer, before its copies: the phase waits for so many `bytes` too. It arrives once.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(mbarrier* bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(shared_address(bar)), "r"(bytes) : "memory");
}

// Whether the phase of this parity has completed; the thread may sleep a while before it answers.
__device__ __forceinline__ bool mbarrier_try_wait_parity(mbarrier* bar, u32 parity) {
  u32 done;
  asm volatile("{ .reg .pred p;\n"
               "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
               "selp.u32 %0, 1, 0, p; }"
               : "=r"(done) : "r"(shared_address(bar)), "r"(parity) : "memory");
  return done;
}

// Returns once the phase of this parity has completed. On a fresh barrier parity 1 counts as
// complete: a producer that waits for `phase ^ 1` finds every buffer of its first lap empty.
__device__ __forceinline__ void mbarrier_wait_parity(mbarrier* bar, u32 parity) {
  while (!mbarrier_try_wait_parity(bar, parity)) {}
}

}  // namespace ptx
