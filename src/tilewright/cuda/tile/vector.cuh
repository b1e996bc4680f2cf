#pragma once
// 16 bytes at once: four fp32 elements by one instruction.
namespace tile {

constexpr int CHUNK = 4;                              // fp32 elements in 16 bytes

// Both addresses are multiples of 16 bytes; either may be global, shared or a register array.
__device__ __forceinline__ void copy_chunk(float* to, const float* from) {
  *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
}

}  // namespace tile
