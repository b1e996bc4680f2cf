#pragma once
#include "ptx/address.cuh"
#include "ptx/bulk_group.cuh"
#include "ptx/tensor_map.cuh"
// PTX ISA, "cp.reduce.async.bulk.tensor" (sm_90 and later): as tma_store.cuh, but each element is
// added to what lies in global memory, atomically. For several blocks that share a tile of C.
namespace ptx {

__device__ __forceinline__ void cp_reduce_async_bulk_tensor_2d_add(const TensorMap& map, int x,
                                                                   int y, const void* shared) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group "
               "[%0, {%2, %3}], [%1];"
               :: "l"(&map), "r"(shared_address(shared)), "r"(x), "r"(y) : "memory");
}

__device__ __forceinline__ void cp_reduce_async_bulk_tensor_3d_add(const TensorMap& map, int x,
                                                                   int y, int z,
                                                                   const void* shared) {
  asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group "
               "[%0, {%2, %3, %4}], [%1];"
               :: "l"(&map), "r"(shared_address(shared)), "r"(x), "r"(y), "r"(z) : "memory");
}

}  // namespace ptx
