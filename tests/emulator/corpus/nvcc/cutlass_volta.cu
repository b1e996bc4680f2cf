// cutlass_volta: CUTLASS 2 with m8n8k4, the quads of Volta; A and B row-major, fp32 sums.
#include "cutlass_launch.cuh"

using Half = cutlass::half_t;
using Gemm = cutlass::gemm::device::Gemm<
    Half, Row, Half, Row, float, Row, float, OpClassTensorOp, cutlass::arch::Sm70,
    Shape<64, 64, 32>, Shape<32, 32, 32>, Shape<8, 8, 4>,
    cutlass::epilogue::thread::LinearCombination<float, 4>, Swizzle, 2>;

extern "C" __global__ void __launch_bounds__(128)
    gemm(float* d, const Half* a, const Half* b, int m, int n, int k) {
  product<Gemm>(d, a, b, m, n, k, k, n);
}
