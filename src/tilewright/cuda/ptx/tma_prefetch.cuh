#pragma once
#include "ptx/tensor_map.cuh"
// PTX ISA, "cp.async.bulk.prefetch.tensor" (sm_90 and later).
namespace ptx {

// global → L2: a box that somebody will soon copy to shared memory. One thread; nobody waits.
__device__ __forceinline__ void cp_async_bulk_prefetch_tensor_2d(const TensorMap& map, int x,
                                                                 int y) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];"
               :: "l"(&map), "r"(x), "r"(y) : "memory");
}

}  // namespace ptx
