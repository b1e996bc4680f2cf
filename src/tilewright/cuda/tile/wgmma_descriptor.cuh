#pragma once
#include "ptx/address.cuh"
#include "ptx/wgmma.cuh"
// The descriptors of 16-bit operands that TMA has laid out in rows of 128 bytes with its 128-byte
// swizzle: 8 rows, 1024 bytes, are one pattern. PTX ISA, "Asynchronous Warpgroup Matrix Shared
// Memory Layout", "Strides" and "Matrix Descriptor Format".
namespace tile {

constexpr int PANEL = 64;                             // elements of 16 bits in a row of 128 bytes

// K-major: a row holds 64 elements of K, and the rows of M or N follow each other. From the tile's
// `start`, a multiple of 1024, to where the operand begins: whole patterns, and 0, 16, 32 or 48.
template <class T>
__device__ __forceinline__ ptx::Descriptor<T, ptx::Major::K> k_major(const T* start, int elements) {
  constexpr unsigned PATTERN = 1024 >> 4, LEADING = 1, SWIZZLE_128B = 1u << 30;
  const unsigned low = (ptx::shared_address(start) & 0x3FFFF) >> 4 | LEADING << 16;
  const unsigned moved = low + elements * sizeof(T) / 16;
  return {(unsigned long long)(SWIZZLE_128B | PATTERN) << 32 | moved};
}

// MN-major: a row holds 64 elements of M or N, and the rows of K follow each other; the next 64
// elements of M or N lie in the next panel, PANEL_BYTES further on. It begins whole patterns further.
template <int PANEL_BYTES, class T>
__device__ __forceinline__ ptx::Descriptor<T, ptx::Major::MN> mn_major(const T* start,
                                                                       int elements) {
  constexpr unsigned PATTERN = 1024 >> 4, LEADING = PANEL_BYTES >> 4, SWIZZLE_128B = 1u << 30;
  const unsigned low = (ptx::shared_address(start) & 0x3FFFF) >> 4 | LEADING << 16;
  const unsigned moved = low + elements * sizeof(T) / 16;
  return {(unsigned long long)(SWIZZLE_128B | PATTERN) << 32 | moved};
}

}  // namespace tile
