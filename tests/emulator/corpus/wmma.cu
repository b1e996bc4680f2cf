// What <mma.h> offers, for one shape and one pair of types: all orders of a, b and c.
// A warp makes one M x N tile of c = a * b + 2 * c; K runs in steps. Strides are the leading ones.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <class> constexpr bool by_rows = false;
template <> constexpr bool by_rows<wmma::row_major> = true;

template <class A, class B, bool ROW>
__device__ void tile(const ELEMENT* a, const ELEMENT* b, SUM* c, int lda, int ldb, int ldc, int k) {
  wmma::fragment<wmma::matrix_a, TM, TN, TK, KIND, A> fa;
  wmma::fragment<wmma::matrix_b, TM, TN, TK, KIND, B> fb;
  wmma::fragment<wmma::accumulator, TM, TN, TK, SUM> sum, before;
  wmma::fill_fragment(sum, SUM(0));
  const int i = blockIdx.y * TM, j = blockIdx.x * TN;
  constexpr bool a_row = by_rows<A>;
  constexpr bool b_row = by_rows<B>;
  for (int at = 0; at < k; at += TK) {
    wmma::load_matrix_sync(fa, a + (a_row ? i * lda + at : at * lda + i), lda);
    wmma::load_matrix_sync(fb, b + (b_row ? at * ldb + j : j * ldb + at), ldb);
    wmma::mma_sync(sum, fa, fb, sum);
  }
  c += ROW ? i * ldc + j : j * ldc + i;
  constexpr auto order = ROW ? wmma::mem_row_major : wmma::mem_col_major;
  wmma::load_matrix_sync(before, c, ldc, order);
  for (int e = 0; e < sum.num_elements; ++e) sum.x[e] = sum.x[e] + SUM(2) * before.x[e];
  wmma::store_matrix_sync(c, sum, ldc, order);
}

#define KERNEL(name, A, B, ROW)                                                       \
  extern "C" __global__ void name(const ELEMENT* a, const ELEMENT* b, SUM* c, int lda, \
                                  int ldb, int ldc, int k) {                          \
    tile<wmma::A, wmma::B, ROW>(a, b, c, lda, ldb, ldc, k);                           \
  }

KERNEL(rrr, row_major, row_major, true)
KERNEL(rrc, row_major, row_major, false)
KERNEL(rcr, row_major, col_major, true)
KERNEL(rcc, row_major, col_major, false)
KERNEL(crr, col_major, row_major, true)
KERNEL(crc, col_major, row_major, false)
KERNEL(ccr, col_major, col_major, true)
KERNEL(ccc, col_major, col_major, false)
