// fp8 in, fp16 out; one warpgroup multiplies.
#include "gemm.cuh"
using Kernel =
    TmaGemm<cutlass::float_e4m3_t, cutlass::half_t, Shape<_64, _64, _128>, Shape<_1, _1, _1>,
            cutlass::gemm::KernelTmaWarpSpecialized, cutlass::epilogue::TmaWarpSpecialized>::Kernel;
enum Launch : int { M = 72, N = 80, K = 272, BLOCKS = 2 };
#include "launch.cuh"
