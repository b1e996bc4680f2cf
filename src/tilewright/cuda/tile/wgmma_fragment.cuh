#pragma once
// Who holds what of wgmma's result: PTX ISA, "Register Fragments and Shared Memory Matrix Layouts",
// accumulator D of wgmma.m64nNk16. Pure index arithmetic.
namespace tile {

// Register i of a thread of the warpgroup is element
// (wgmma_row(thread) + i / 2 % 2 * 8, wgmma_col(thread) + i / 4 * 8 + i % 2) of acc[64, N].
__device__ __forceinline__ int wgmma_row(int thread) {
  return thread / 32 % 4 * 16 + thread % 32 / 4;
}
__device__ __forceinline__ int wgmma_col(int thread) { return thread % 4 * 2; }

}  // namespace tile
