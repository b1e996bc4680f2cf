#pragma once
#include "ptx/bulk_group.cuh"
#include "ptx/tma.cuh"
// PTX ISA, "cp.async.bulk.tensor" with three dimensions: tma.cuh, tma_multicast.cuh and
// tma_store.cuh for a batch of matrices, or a matrix cut into panels.
namespace ptx {

// global → shared.
__device__ __forceinline__ void cp_async_bulk_tensor_3d(void* shared, const TensorMap& map,
                                                        mbarrier* bar, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5}], [%2];"
               :: "r"(shared_address(shared)), "l"(&map), "r"(shared_address(bar)),
                  "r"(x), "r"(y), "r"(z) : "memory");
}

// global → shared of every block of the cluster whose bit `blocks` has.
__device__ __forceinline__ void cp_async_bulk_tensor_3d_multicast(
    void* shared, const TensorMap& map, mbarrier* bar, unsigned short blocks, int x, int y,
    int z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%4, %5, %6}], [%2], %3;"
               :: "r"(shared_address(shared)), "l"(&map), "r"(shared_address(bar)),
                  "h"(blocks), "r"(x), "r"(y), "r"(z) : "memory");
}

// shared → global.
__device__ __forceinline__ void cp_async_bulk_tensor_3d_store(const TensorMap& map, int x, int y,
                                                              int z, const void* shared) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group "
               "[%0, {%2, %3, %4}], [%1];"
               :: "l"(&map), "r"(shared_address(shared)), "r"(x), "r"(y), "r"(z) : "memory");
}

}  // namespace ptx
