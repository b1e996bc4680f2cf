#pragma once
#include "ptx/cvt.cuh"
// fp32 values on their way to a matrix of any type and strides, each rounded once.
namespace tile {

template <class D>
__device__ __forceinline__ D rounded(float value) {
  if constexpr (sizeof(D) == 4) return value;
  else return D{static_cast<unsigned short>(ptx::cvt_rn_x2<D>(value, 0.f))};
}

// COUNT neighbours of a row, `step` elements apart, of which the first `left` lie inside. VEC of
// them may be stored at once: they are next to each other, at a multiple of their own size.
template <int VEC, class D, int COUNT>
__device__ __forceinline__ void store_row(D* to, long long step, const float (&values)[COUNT],
                                          int left) {
  static_assert(COUNT == 2 || COUNT == 4, "what a thread holds of a row");
  if (VEC >= COUNT && left >= COUNT) {
    if constexpr (sizeof(D) == 4 && COUNT == 4)
      *reinterpret_cast<float4*>(to) = float4{values[0], values[1], values[2], values[3]};
    else if constexpr (sizeof(D) == 4)
      *reinterpret_cast<float2*>(to) = float2{values[0], values[1]};
    else if constexpr (COUNT == 4)
      *reinterpret_cast<uint2*>(to) = uint2{ptx::cvt_rn_x2<D>(values[0], values[1]),
                                            ptx::cvt_rn_x2<D>(values[2], values[3])};
    else
      *reinterpret_cast<ptx::u32*>(to) = ptx::cvt_rn_x2<D>(values[0], values[1]);
  } else {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      if (i < left) to[i * step] = rounded<D>(values[i]);
  }
}

}  // namespace tile
