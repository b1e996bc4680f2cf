// Runs a CUTLASS 2 kernel whose parameters are built on the device: D = A · B.
#pragma once
#include <cutlass/gemm/device/gemm.h>

using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using cutlass::arch::OpClassTensorOp;
template <int M, int N, int K>
using Shape = cutlass::gemm::GemmShape<M, N, K>;
using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>;

template <class Gemm, class A, class D>
__device__ void product(D* d, const A* a, const A* b, int m, int n, int k, int lda, int ldb) {
  using Kernel = typename Gemm::GemmKernel;
  using Tile = typename Gemm::ThreadblockShape;
  using Scalar = typename Gemm::EpilogueOutputOp::ElementCompute;
  extern __shared__ __align__(16) char bytes[];
  cutlass::gemm::GemmCoord problem(m, n, k);
  cutlass::gemm::GemmCoord tiles((m + Tile::kM - 1) / Tile::kM, (n + Tile::kN - 1) / Tile::kN, 1);
  typename Kernel::Params params(problem, tiles, {const_cast<A*>(a), lda}, {const_cast<A*>(b), ldb},
                                 {d, n}, {d, n}, {Scalar(1), Scalar(0)});
  Kernel()(params, *reinterpret_cast<typename Kernel::SharedStorage*>(bytes));
}
