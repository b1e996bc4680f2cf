#pragma once
#include "ptx/tma.cuh"
// PTX ISA, "cp.async.bulk.tensor" with .multicast::cluster.
namespace ptx {

// The box lands at the same place of every block of the cluster whose bit `blocks` has, and its
// bytes complete on the barrier at the same place there.
__device__ __forceinline__ void cp_async_bulk_tensor_2d_multicast(
    void* shared, const TensorMap& map, mbarrier* bar, unsigned short blocks, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%4, %5}], [%2], %3;"
               :: "r"(shared_address(shared)), "l"(&map), "r"(shared_address(bar)),
                  "h"(blocks), "r"(x), "r"(y) : "memory");
}

}  // namespace ptx
