// D[M, N] = A[M, K] · B[N, K]ᵀ by CUTLASS 3: TMA, mbarriers, wgmma, persistent blocks with roles.
#pragma once
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

using namespace cute;

template <class Element, class Out, class Tile, class Cluster, class Mainloop, class Epilogue>
struct TmaGemm {
  using Row = cutlass::layout::RowMajor;
  using Column = cutlass::layout::ColumnMajor;
  using Chip = cutlass::arch::Sm90;
  using TensorCores = cutlass::arch::OpClassTensorOp;
  static constexpr int kIn = 16 / sizeof(Element), kOut = 16 / sizeof(Out);  // in 16 bytes
  using Back = typename cutlass::epilogue::collective::CollectiveBuilder<
      Chip, TensorCores, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto, float,
      float, void, Row, kOut, Out, Row, kOut, Epilogue>::CollectiveOp;
  using Stages = cutlass::gemm::collective::StageCountAutoCarveout<sizeof(
      typename Back::SharedStorage)>;
  using Front = typename cutlass::gemm::collective::CollectiveBuilder<
      Chip, TensorCores, Element, Row, kIn, Element, Column, kIn, float, Tile, Cluster, Stages,
      Mainloop>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Front, Back>;
};
