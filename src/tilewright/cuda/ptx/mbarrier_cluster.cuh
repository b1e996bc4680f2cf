#pragma once
#include "ptx/address.cuh"
// PTX ISA, "mbarrier.arrive" on a barrier of another block of the cluster (sm_90 and later).
// `remote` is an address of shared::cluster, as mapa gives it. The first two say that something
// is free to be overwritten; the release and acquire hand on what was written, at the price of a
// fence of the whole GPU (MEMBAR, CCTL.IVALL) each, and have no place in a main loop.
namespace ptx {

// A consumer whose reads are done, to who will overwrite what it read, in whichever block.
__device__ __forceinline__ void mbarrier_arrive_cluster(u32 remote) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(remote) : "memory");
}

// Announces bytes that copies will bring to the other block, and arrives there once.
__device__ __forceinline__ void mbarrier_arrive_expect_tx_cluster(u32 remote, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%0], %1;"
               :: "r"(remote), "r"(bytes) : "memory");
}

// What the thread wrote before is visible to who waits with acquire, in whichever block.
__device__ __forceinline__ void mbarrier_arrive_release_cluster(u32 remote) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
               :: "r"(remote) : "memory");
}

// As mbarrier_try_wait_parity, of a barrier of the own block: what threads of the cluster wrote
// before they arrived with release is visible after it.
__device__ __forceinline__ bool mbarrier_try_wait_parity_acquire_cluster(void* bar, u32 parity) {
  u32 done;
  asm volatile("{ .reg .pred p;\n"
               "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
               "selp.u32 %0, 1, 0, p; }"
               : "=r"(done) : "r"(shared_address(bar)), "r"(parity) : "memory");
  return done;
}

}  // namespace ptx
