// cutlass_gemm: CUTLASS 2's multistage kernel for fp16 with its epilogue, C row-major.
//
// Its parameters are built on the device, so that the kernel takes plain pointers.
#include <cutlass/gemm/device/gemm.h>

using Half = cutlass::half_t;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using Gemm = cutlass::gemm::device::Gemm<
    Half, Row, Half, Row, Half, Row, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
    cutlass::gemm::GemmShape<64, 64, 32>, cutlass::gemm::GemmShape<32, 32, 32>,
    cutlass::gemm::GemmShape<16, 8, 16>,
    cutlass::epilogue::thread::LinearCombination<Half, 8, float, float>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 3>;
using Kernel = Gemm::GemmKernel;

extern "C" __global__ void __launch_bounds__(128) gemm(
    Half* d, const Half* a, const Half* b, const Half* c, int m, int n, int k, float alpha,
    float beta) {
  extern __shared__ __align__(16) char bytes[];
  cutlass::gemm::GemmCoord problem(m, n, k), tiles((m + 63) / 64, (n + 63) / 64, 1);
  Kernel::Params params(problem, tiles, {const_cast<Half*>(a), k}, {const_cast<Half*>(b), n},
                        {const_cast<Half*>(c), n}, {d, n}, {alpha, beta});
  Kernel()(params, *reinterpret_cast<Kernel::SharedStorage*>(bytes));
}
static_assert(sizeof(Kernel::SharedStorage) == 24576, "the test gives this much");
