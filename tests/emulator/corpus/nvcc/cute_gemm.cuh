// cute_gemm: one tile of C[M, N] = A[M, K] · B[N, K]ᵀ a block, by CuTe's layouts and copies.
//
// Both operands are K-major, so that every type goes through the same ldmatrix. M, N and K are
// multiples of the tile. The .cu files beside this one choose type, tensor core and stages.
#pragma once
#include <cute/tensor.hpp>

using namespace cute;

template <class T, class Accumulator, class Atom, int BM, int BN, int BK, int STAGES>
struct TensorCoreGemm {
  static constexpr int VECTOR = 16 / sizeof(T);
  using Rows = decltype(composition(
      Swizzle<3, (sizeof(T) == 4 ? 2 : sizeof(T) == 2 ? 3 : 4), 3>{},
      Layout<Shape<_8, Int<BK>>, Stride<Int<BK>, _1>>{}));
  using LayoutA = decltype(tile_to_shape(Rows{}, Shape<Int<BM>, Int<BK>, Int<STAGES>>{}));
  using LayoutB = decltype(tile_to_shape(Rows{}, Shape<Int<BN>, Int<BK>, Int<STAGES>>{}));
  struct Smem {
    alignas(128) T a[cosize_v<LayoutA>];
    alignas(128) T b[cosize_v<LayoutB>];
  };

  __device__ static void run(Accumulator* c, const T* a, const T* b, int m, int n, int k, Smem& s) {
    auto A = make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{}));
    auto B = make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(k, _1{}));
    auto C = make_tensor(make_gmem_ptr(c), make_shape(m, n), make_stride(n, _1{}));
    auto gA = local_tile(A, Shape<Int<BM>, Int<BK>>{}, make_coord(blockIdx.y, _));
    auto gB = local_tile(B, Shape<Int<BN>, Int<BK>>{}, make_coord(blockIdx.x, _));
    auto gC = local_tile(C, Shape<Int<BM>, Int<BN>>{}, make_coord(blockIdx.y, blockIdx.x));
    auto sA = make_tensor(make_smem_ptr(s.a), LayoutA{});
    auto sB = make_tensor(make_smem_ptr(s.b), LayoutB{});

    constexpr int ACROSS = BK / VECTOR;
    auto copy_in = make_tiled_copy(
        Copy_Atom<SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, T>{},
        Layout<Shape<Int<128 / ACROSS>, Int<ACROSS>>, Stride<Int<ACROSS>, _1>>{},
        Layout<Shape<_1, Int<VECTOR>>>{});
    auto mine = copy_in.get_slice(threadIdx.x);
    auto fromA = mine.partition_S(gA);
    auto intoA = mine.partition_D(sA);
    auto fromB = mine.partition_S(gB);
    auto intoB = mine.partition_D(sB);

    auto mma = make_tiled_mma(Atom{}, Layout<Shape<_2, _2, _1>>{}, Tile<_32, _32, Underscore>{});
    auto part = mma.get_slice(threadIdx.x);
    auto rA = part.partition_fragment_A(sA(_, _, 0));
    auto rB = part.partition_fragment_B(sB(_, _, 0));
    auto tC = part.partition_C(gC);
    auto acc = part.make_fragment_C(tC);
    clear(acc);

    auto readA = make_tiled_copy_A(Copy_Atom<SM75_U32x4_LDSM_N, T>{}, mma);
    auto readB = make_tiled_copy_B(Copy_Atom<SM75_U32x4_LDSM_N, T>{}, mma);
    auto sliceA = readA.get_slice(threadIdx.x);
    auto sliceB = readB.get_slice(threadIdx.x);
    auto tA = sliceA.partition_S(sA);
    auto tB = sliceB.partition_S(sB);
    auto vA = sliceA.retile_D(rA);
    auto vB = sliceB.retile_D(rB);

    const int steps = size<3>(fromA);
    CUTE_UNROLL
    for (int step = 0; step < STAGES - 1; ++step) {
      if (step < steps) {
        copy(copy_in, fromA(_, _, _, step), intoA(_, _, _, step));
        copy(copy_in, fromB(_, _, _, step), intoB(_, _, _, step));
      }
      cp_async_fence();
    }
    CUTE_NO_UNROLL
    for (int step = 0; step < steps; ++step) {
      cp_async_wait<STAGES - 2>();
      __syncthreads();
      int next = step + STAGES - 1;
      if (next < steps) {
        copy(copy_in, fromA(_, _, _, next), intoA(_, _, _, next % STAGES));
        copy(copy_in, fromB(_, _, _, next), intoB(_, _, _, next % STAGES));
      }
      cp_async_fence();
      CUTE_UNROLL
      for (int inner = 0; inner < size<2>(rA); ++inner) {
        copy(readA, tA(_, _, inner, step % STAGES), vA(_, _, inner));
        copy(readB, tB(_, _, inner, step % STAGES), vB(_, _, inner));
        gemm(mma, rA(_, _, inner), rB(_, _, inner), acc);
      }
    }
    copy(acc, tC);
  }
};

#define TENSOR_CORE_GEMM(T, ACCUMULATOR, ATOM, BM, BN, BK, STAGES)                              \
  extern "C" __global__ void __launch_bounds__(128)                                             \
      gemm(ACCUMULATOR* c, const T* a, const T* b, int m, int n, int k) {                       \
    using Gemm = TensorCoreGemm<T, ACCUMULATOR, ATOM, BM, BN, BK, STAGES>;                      \
    __shared__ typename Gemm::Smem smem;                                                        \
    Gemm::run(c, a, b, m, n, k, smem);                                                          \
  }
