// Two warpgroups share a tile; two blocks share tiles of A by multicast.
#include "gemm.cuh"
using Kernel =
    TmaGemm<cutlass::bfloat16_t, cutlass::bfloat16_t, Shape<_128, _64, _64>, Shape<_1, _2, _1>,
            cutlass::gemm::KernelTmaWarpSpecializedCooperative,
            cutlass::epilogue::TmaWarpSpecializedCooperative>::Kernel;
enum Launch : int { M = 136, N = 120, K = 72, BLOCKS = 2 };
#include "launch.cuh"
