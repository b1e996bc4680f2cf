#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Special Registers: %cluster_ctarank", "barrier.cluster" and "mapa" (sm_90 and later).
namespace ptx {

// The number of this block in its cluster, as masks and mapa count them.
__device__ __forceinline__ u32 cluster_ctarank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Every thread of the cluster arrives, then waits. What it did before is visible after the wait.
__device__ __forceinline__ void barrier_cluster_arrive_release() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// The same without the promise of visibility: for who only must not leave before the others.
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// Returns once all threads of the cluster have arrived.
__device__ __forceinline__ void barrier_cluster_wait_acquire() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address, in shared::cluster, of what lies in block `rank` where `shared` lies in this one.
__device__ __forceinline__ u32 mapa(const void* shared, u32 rank) {
  u32 remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(remote) : "r"(shared_address(shared)), "r"(rank));
  return remote;
}

}  // namespace ptx
