#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Data Movement and Conversion Instructions: cp.async", with a source size (sm_80 and
// later). Called by kernels whose tiles may be cut by the edges of a matrix.
namespace ptx {

// Each thread copies the first `used` of BYTES (4, 8 or 16) and fills the rest with zeros; with 0
// used, `global` is not read. Both addresses are multiples of BYTES.
template <int BYTES>
__device__ __forceinline__ void cp_async_fill(u32 shared, const void* global, u32 used) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               :: "r"(shared), "l"(global), "n"(BYTES), "r"(used) : "memory");
}

// 16 bytes go past L1 (.cg), and L2 is asked for the whole 128-byte line.
template <>
__device__ __forceinline__ void cp_async_fill<16>(u32 shared, const void* global, u32 used) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
               :: "r"(shared), "l"(global), "r"(used) : "memory");
}

}  // namespace ptx
