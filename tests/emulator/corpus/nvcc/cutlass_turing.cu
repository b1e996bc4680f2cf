// cutlass_turing: CUTLASS 2 with m16n8k8 and sums in fp16, A column-major, both by ldmatrix.trans.
#include "cutlass_launch.cuh"

using Half = cutlass::half_t;
using Gemm = cutlass::gemm::device::Gemm<
    Half, Column, Half, Row, Half, Row, Half, OpClassTensorOp, cutlass::arch::Sm75,
    Shape<64, 64, 32>, Shape<32, 32, 32>, Shape<16, 8, 8>,
    cutlass::epilogue::thread::LinearCombination<Half, 8, Half, Half>, Swizzle, 2>;

extern "C" __global__ void __launch_bounds__(128)
    gemm(Half* d, const Half* a, const Half* b, int m, int n, int k) {
  product<Gemm>(d, a, b, m, n, k, m, n);
}
