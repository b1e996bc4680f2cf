#pragma once
// XOR swizzles of fp32 tiles: where element `m` of row `k` lives inside its row. They move whole
// 16-byte chunks (4 elements), stay inside the row and are their own inverse.
namespace tile {

// A transposed: row k holds A's column k of a step of 16. Of 32 lanes that read 16 bytes each, four
// hold one row of A and store it 4 k apart, beside those of seven rows more: without the swizzle
// into 8 banks, with it into 32. The four rows of a chunk, and elements 32 apart, move alike.
__device__ __forceinline__ int swizzle_at(int k, int m) { return m ^ (((k >> 2) & 3) << 3); }

}  // namespace tile
