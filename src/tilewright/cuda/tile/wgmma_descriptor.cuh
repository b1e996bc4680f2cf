#pragma once
#include "ptx/address.cuh"
#include "ptx/wgmma.cuh"
// The descriptors of 16-bit operands that TMA has laid out in rows of 128 bytes with its 128-byte
// swizzle: 8 rows, 1024 bytes, are one pattern. PTX ISA, "Asynchronous Warpgroup Matrix Shared
// Memory Layout", "Strides" and "Matrix Descriptor Format".
namespace tile {

constexpr int PANEL = 64;                             // elements of 16 bits in a row of 128 bytes

// Of what begins so many `elements` after `tile`, which begins at a multiple of 1024 bytes.
// K-major, a row holds 64 elements of K and the rows of M or N follow each other: the operand
// begins whole patterns further, and 0, 16, 32 or 48 elements. MN-major, a row holds 64 elements of
// M or N, the rows of K follow each other, and the next 64 of M or N lie in the next panel, which
// is PANEL_BYTES further on: the operand begins whole patterns further.
template <ptx::Major MAJOR, int PANEL_BYTES, class T>
__device__ __forceinline__ ptx::Descriptor<T, MAJOR> descriptor(const T* tile, int elements) {
  constexpr unsigned UNUSED = 1, LEADING = MAJOR == ptx::Major::K ? UNUSED : PANEL_BYTES >> 4;
  constexpr unsigned PATTERN = 1024 >> 4, SWIZZLE_128B = 1u << 30;
  const unsigned start = (ptx::shared_address(tile) & 0x3FFFF) >> 4;
  // Added after the shift: the compiler then takes constants out of it, also from unrolled loops.
  const unsigned low = (start | LEADING << 16) + elements * sizeof(T) / 16;
  return {(unsigned long long)(SWIZZLE_128B | PATTERN) << 32 | low};
}

}  // namespace tile
