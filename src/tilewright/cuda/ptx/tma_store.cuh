#pragma once
#include "ptx/address.cuh"
#include "ptx/bulk_group.cuh"
#include "ptx/tensor_map.cuh"
// PTX ISA, "cp.async.bulk.tensor" from shared to global memory (sm_90 and later). One thread; who
// wrote the shared memory calls fence_proxy_async_shared_cta() and meets that thread at a barrier
// before. What lies outside the tensor is not stored.
namespace ptx {

// shared → global.
__device__ __forceinline__ void cp_async_bulk_tensor_2d_store(const TensorMap& map, int x, int y,
                                                              const void* shared) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
               :: "l"(&map), "r"(shared_address(shared)), "r"(x), "r"(y) : "memory");
}

}  // namespace ptx
