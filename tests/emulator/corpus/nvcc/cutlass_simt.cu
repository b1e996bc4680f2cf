// cutlass_simt: CUTLASS 2's two-stage kernel for fp32 on CUDA cores, column-major A.
#include <cutlass/gemm/device/gemm.h>

using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using Gemm = cutlass::gemm::device::Gemm<
    float, Column, float, Row, float, Row, float, cutlass::arch::OpClassSimt, cutlass::arch::Sm70,
    cutlass::gemm::GemmShape<32, 64, 8>, cutlass::gemm::GemmShape<32, 32, 8>,
    cutlass::gemm::GemmShape<1, 1, 1>, cutlass::epilogue::thread::LinearCombination<float, 1>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 2>;
using Kernel = Gemm::GemmKernel;

extern "C" __global__ void __launch_bounds__(64)
    gemm(float* d, const float* a, const float* b, int m, int n, int k) {
  extern __shared__ __align__(16) char bytes[];
  cutlass::gemm::GemmCoord problem(m, n, k), tiles((m + 31) / 32, (n + 63) / 64, 1);
  Kernel::Params params(problem, tiles, {const_cast<float*>(a), m}, {const_cast<float*>(b), n},
                        {d, n}, {d, n}, {1.0f, 0.0f});
  Kernel()(params, *reinterpret_cast<Kernel::SharedStorage*>(bytes));
}
