// cute_sgemm: fp32 on CUDA cores; tiles, threads and values are CuTe layouts.
#include <cute/tensor.hpp>
using namespace cute;

extern "C" __global__ void __launch_bounds__(256)
    gemm(float* c, const float* a, const float* b, int m, int n, int k) {
  auto A = make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{}));
  auto B = make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(k, _1{}));
  auto C = make_tensor(make_gmem_ptr(c), make_shape(m, n), make_stride(n, _1{}));
  auto tile = Shape<_64, _64, _8>{};
  auto where = make_coord(blockIdx.y, blockIdx.x, _);
  auto gA = local_tile(A, tile, where, Step<_1, X, _1>{});
  auto gB = local_tile(B, tile, where, Step<X, _1, _1>{});
  auto gC = local_tile(C, tile, where, Step<_1, _1, X>{});
  auto layout = Layout<Shape<_64, _8>, Stride<_1, Int<68>>>{};
  __shared__ float bufferA[cosize_v<decltype(layout)>], bufferB[cosize_v<decltype(layout)>];
  auto sA = make_tensor(make_smem_ptr(bufferA), layout);
  auto sB = make_tensor(make_smem_ptr(bufferB), layout);
  auto threads = Layout<Shape<_32, _8>, Stride<_8, _1>>{};
  auto fromA = local_partition(gA, threads, threadIdx.x);
  auto fromB = local_partition(gB, threads, threadIdx.x);
  auto intoA = local_partition(sA, threads, threadIdx.x);
  auto intoB = local_partition(sB, threads, threadIdx.x);
  auto square = Layout<Shape<_16, _16>>{};
  auto rowsA = local_partition(sA, square, threadIdx.x, Step<_1, X>{});
  auto rowsB = local_partition(sB, square, threadIdx.x, Step<X, _1>{});
  auto tC = local_partition(gC, square, threadIdx.x, Step<_1, _1>{});
  auto acc = make_tensor_like(tC);
  clear(acc);
  for (int step = 0; step < size<2>(fromA); ++step) {
    copy(fromA(_, _, step), intoA);
    copy(fromB(_, _, step), intoB);
    cp_async_fence();
    cp_async_wait<0>();
    __syncthreads();
    gemm(rowsA, rowsB, acc);
    __syncthreads();
  }
  axpby(1.0f, acc, 0.0f, tC);
}
