#pragma once
#include "ptx/mbarrier.cuh"
// PTX ISA, "mbarrier.try_wait" with a suspend-time hint: a wait that asks seldom and so leaves
// issue slots and power to others. For threads that wait long, as a producer that is ahead.
namespace ptx {

// As without the hint; the thread may sleep up to about so many nanoseconds before it answers.
__device__ __forceinline__ bool mbarrier_try_wait_parity(mbarrier* bar, u32 parity, u32 ns) {
  u32 done;
  asm volatile("{ .reg .pred p;\n"
               "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, %3;\n"
               "selp.u32 %0, 1, 0, p; }"
               : "=r"(done) : "r"(shared_address(bar)), "r"(parity), "r"(ns) : "memory");
  return done;
}

// Returns once the phase of this parity has completed.
__device__ __forceinline__ void mbarrier_wait_parity(mbarrier* bar, u32 parity, u32 ns) {
  while (!mbarrier_try_wait_parity(bar, parity, ns)) {}
}

}  // namespace ptx
