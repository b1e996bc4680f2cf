#pragma once
#include "ptx/createpolicy.cuh"
#include "ptx/tma.cuh"
// PTX ISA, "cp.async.bulk.tensor" with .L2::cache_hint: the copies of tma.cuh, tma_multicast.cuh
// and tma_store.cuh that also say how long L2 should keep the lines.
namespace ptx {

__device__ __forceinline__ void cp_async_bulk_tensor_2d(
    void* shared, const TensorMap& map, mbarrier* bar, int x, int y, cache_policy policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5;"
               :: "r"(shared_address(shared)), "l"(&map), "r"(shared_address(bar)),
                  "r"(x), "r"(y), "l"(policy.bits) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_tensor_2d_multicast(
    void* shared, const TensorMap& map, mbarrier* bar, unsigned short blocks, int x, int y,
    cache_policy policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster.L2::cache_hint [%0], [%1, {%4, %5}], [%2], %3, %6;"
               :: "r"(shared_address(shared)), "l"(&map), "r"(shared_address(bar)),
                  "h"(blocks), "r"(x), "r"(y), "l"(policy.bits) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_tensor_2d_store(
    const TensorMap& map, int x, int y, const void* shared, cache_policy policy) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint "
               "[%0, {%2, %3}], [%1], %4;"
               :: "l"(&map), "r"(shared_address(shared)), "r"(x), "r"(y), "l"(policy.bits)
               : "memory");
}

}  // namespace ptx
