// Two warpgroups take turns on tiles; two blocks share tiles of B by multicast.
#include "gemm.cuh"
using Kernel =
    TmaGemm<cutlass::half_t, cutlass::half_t, Shape<_64, _64, _64>, Shape<_2, _1, _1>,
            cutlass::gemm::KernelTmaWarpSpecializedPingpong,
            cutlass::epilogue::TmaWarpSpecialized>::Kernel;
enum Launch : int { M = 72, N = 104, K = 136, BLOCKS = 2 };
#include "launch.cuh"
