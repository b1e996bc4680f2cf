#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/tensor_map.cuh"
// PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk.tensor" (sm_90 and later):
// one thread copies a box of a tensor, whose sizes, swizzle and borders its map holds. Coordinates
// are elements, the contiguous dimension first; what lies outside the tensor arrives as zeros.
namespace ptx {

// global → shared. The box's bytes, those outside the tensor too, complete on `bar`.
__device__ __forceinline__ void cp_async_bulk_tensor_2d(void* shared, const TensorMap& map,
                                                        mbarrier* bar, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4}], [%2];"
               :: "r"(shared_address(shared)), "l"(&map), "r"(shared_address(bar)),
                  "r"(x), "r"(y) : "memory");
}

// Brings the map itself into the cache; one thread, as early as possible.
__device__ __forceinline__ void prefetch_tensormap(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}

}  // namespace ptx
