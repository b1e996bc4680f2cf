#pragma once
#include "ptx/address.cuh"
// PTX ISA, "mbarrier.arrive" on a barrier of another block of the cluster, and the wait for such
// arrivals. `remote` is an address of shared::cluster, as mapa gives it.
namespace ptx {

// What the thread did before is visible to who waits for the phase, in whichever block.
__device__ __forceinline__ void mbarrier_arrive_cluster(u32 remote) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
               :: "r"(remote) : "memory");
}

// Announces bytes that copies will bring to the other block, and arrives there once.
__device__ __forceinline__ void mbarrier_arrive_expect_tx_cluster(u32 remote, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;"
               :: "r"(remote), "r"(bytes) : "memory");
}

// As mbarrier_try_wait_parity, of a barrier of the own block: what threads of the cluster did
// before they arrived is visible after it.
__device__ __forceinline__ bool mbarrier_try_wait_parity_cluster(void* bar, u32 parity) {
  u32 done;
  asm volatile("{ .reg .pred p;\n"
               "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
               "selp.u32 %0, 1, 0, p; }"
               : "=r"(done) : "r"(shared_address(bar)), "r"(parity) : "memory");
  return done;
}

// Returns once the phase of this parity has completed.
__device__ __forceinline__ void mbarrier_wait_parity_cluster(void* bar, u32 parity) {
  while (!mbarrier_try_wait_parity_cluster(bar, parity)) {}
}

}  // namespace ptx
