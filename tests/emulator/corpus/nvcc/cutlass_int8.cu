// cutlass_int8: CUTLASS 2 with m8n8k16 of int8, B column-major.
#include "cutlass_launch.cuh"

using Gemm = cutlass::gemm::device::Gemm<
    int8_t, Row, int8_t, Column, int, Row, int, OpClassTensorOp, cutlass::arch::Sm75,
    Shape<64, 64, 64>, Shape<32, 32, 64>, Shape<8, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<int, 4, int, int>, Swizzle, 2>;

extern "C" __global__ void __launch_bounds__(128)
    gemm(int* d, const int8_t* a, const int8_t* b, int m, int n, int k) {
  product<Gemm>(d, a, b, m, n, k, k, k);
}
