#pragma once
#include "ptx/tensor_map.cuh"
// PTX ISA, "Parallel Synchronization and Communication Instructions: membar/fence", fence.proxy
// (sm_90 and later). TMA and wgmma reach memory by the async proxy, ld and st by the generic one.
namespace ptx {

// Each thread that wrote memory which TMA or wgmma will read, before the barrier between them.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

// The same for shared memory of the own block alone.
__device__ __forceinline__ void fence_proxy_async_shared_cta() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Who has changed a tensor map in global memory, before it tells others on this GPU.
__device__ __forceinline__ void fence_proxy_tensormap_release() {
  asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
}

// Who has been told that this map was changed, before it uses the map.
__device__ __forceinline__ void fence_proxy_tensormap_acquire(const TensorMap& map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(&map) : "memory");
}

}  // namespace ptx
