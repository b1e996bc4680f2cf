#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Data Movement and Conversion Instructions: cp.async", to a 32-bit address of shared
// memory: for kernels that add a slot's offset to it themselves, one addition for all copies.
namespace ptx {

// Each thread copies 16 bytes past L1 (.cg) and asks L2 for the whole 128-byte line.
__device__ __forceinline__ void cp_async_cg_16_at(u32 shared, const void* global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
               :: "r"(shared), "l"(global) : "memory");
}

// Each thread copies 4 bytes through L1 (.ca), so that a matrix may be transposed on its way.
__device__ __forceinline__ void cp_async_ca_4_at(u32 shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
               :: "r"(shared), "l"(global) : "memory");
}

}  // namespace ptx
