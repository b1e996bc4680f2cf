#pragma once
#include "ptx/cvt_tf32.cuh"
// fp32 to the nearest tf32, which mma does not do: it drops the 13 bits that do not count.
namespace tile {

// The bits of an element in place of those of the fp32 one; for every element of a fragment.
__device__ __forceinline__ ptx::u32 round_tf32(ptx::u32 fp32) {
#if __CUDA_ARCH__ >= 900
  return ptx::cvt_rn_tf32(__uint_as_float(fp32));
#else
  return ptx::cvt_rna_tf32(__uint_as_float(fp32));
#endif
}

}  // namespace tile
