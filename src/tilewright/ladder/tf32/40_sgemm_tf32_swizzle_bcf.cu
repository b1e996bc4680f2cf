// sgemm_tf32_swizzle_bcf: B stays as it lies, and is read element by element.
//
// Idea      a lane's two elements of B[8, 8] are 4 bytes each: ld.shared takes them from rows of N
//           as well as ldmatrix does from rows of K. So nothing has to be transposed: cp.async
//           carries B, too, and one XOR of the columns with the row keeps four rows apart.
// Expect    no bank conflict at all, no registers for what is on its way; eight loads instead of
//           two ldmatrix for each 8 of K. One buffer again, to see this alone.
// Found     as expected: 0.56 of the wavefronts, and faster with one buffer than the rung before with
//           two. 4096³ tf32 on an H200: 1,101.5 µs, 124.8 TFLOP/s, 0.36 of torch
//           (2026-11-30T13:57:41Z).
// Next      sgemm_tf32_swizzle_bcf_dbf puts the second buffer back.
#include "tile/gemm_args.cuh"
#include "tile/fragment_tf32.cuh"
#include "tile/raster.cuh"
#include "tile/round_tf32.cuh"
#include "tile/swizzle_tf32.cuh"
#include "tile/vector.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma_tf32.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 128, 128, 16 elements a block, and SMEM_BYTES, come from ladder/rungs.py.
constexpr int WM = 64, WN = 32;                       // elements of C per warp
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 8;       // per instruction
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
constexpr int CHUNK = tile::CHUNK;                    // elements in the 16 bytes of one copy
constexpr int A_ROWS = THREADS * CHUNK / BK;          // rows that the block copies at once
constexpr int B_ROWS = THREADS * CHUNK / BN;

// --- Smem -------------------------------------------------------------------------------
struct Smem {
  T A[BM * BK];
  T B[BK * BN];
};
static_assert(sizeof(Smem) == SMEM_BYTES, "the rung table and Smem disagree");

extern "C" __global__ __launch_bounds__(THREADS, 2)     // two blocks a multiprocessor
void gemm(const __grid_constant__ GemmArgs g) {       // C[M, N] = A[M, K] * B[K, N]
  extern __shared__ __align__(128) unsigned char raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);

  // --- Who am I -------------------------------------------------------------------------
  const tile::Tile at = tile::raster<8>(blockIdx.x, g.M / BM, g.N / BN);
  const int m0 = at.m * BM, n0 = at.n * BN;
  const unsigned thread = threadIdx.x;
  const int lane = thread % 32, warp = thread / 32;
  const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;
  // The row and column that this lane addresses in ldmatrix, and its first chunk of A and of B.
  const int row = tile::ldmatrix_row(lane), col = tile::ldmatrix_col(lane);
  const int a_row = thread / (BK / CHUNK), a_col = thread % (BK / CHUNK) * CHUNK;
  const int k_row = tile::b_row(lane), n_col = tile::b_col(lane);  // of its first element of B
  const int b_row = thread / (BN / CHUNK), b_col = thread % (BN / CHUNK) * CHUNK;

  // --- Main loop ------------------------------------------------------------------------
  const int steps = g.K / BK;
  float acc[WM / MMA_M][WN / MMA_N][4] = {};
  const T* a_from = &g.A[size_t(m0 + a_row) * g.K + a_col];
  const T* b_from = &g.B[size_t(b_row) * g.N + n0 + b_col];
  auto load = [&] {
    T* a_to = &s.A[a_row * BK + tile::swizzle_a(a_row, a_col)];
    T* b_to = &s.B[b_row * BN + tile::swizzle_b(b_row, b_col)];
    for (int i = 0; i < BM; i += A_ROWS)
      ptx::cp_async_cg_16(a_to + i * BK, a_from + size_t(i) * g.K);
    for (int i = 0; i < BK; i += B_ROWS)
      ptx::cp_async_cg_16(b_to + i * BN, b_from + size_t(i) * g.N);
    ptx::cp_async_commit_group();
    a_from += BK;
    b_from += size_t(BK) * g.N;
  };
  auto multiply = [&] {
    for (int k = 0; k < BK; k += MMA_K) {
      ptx::u32 a[WM / MMA_M][4], b[WN / MMA_N][2];
      const T* a_rows = &s.A[(warp_m + row) * BK + tile::swizzle_a(row, k + col)];
      for (int m = 0; m < WM / MMA_M; ++m) ptx::ldmatrix_x4(a[m], a_rows + m * MMA_M * BK);
      const T* b_rows = &s.B[(k + k_row) * BN];
      for (int n = 0; n < WN / MMA_N; ++n) {
        const T* at = b_rows + tile::swizzle_b(k_row, warp_n + n * MMA_N + n_col);
        b[n][0] = __float_as_uint(at[0]), b[n][1] = __float_as_uint(at[4 * BN]);
      }
      for (auto& frag : a)
        for (auto& word : frag) word = tile::round_tf32(word);
      for (auto& frag : b)
        for (auto& word : frag) word = tile::round_tf32(word);
      for (int m = 0; m < WM / MMA_M; ++m)
        for (int n = 0; n < WN / MMA_N; ++n) ptx::mma_m16n8k8_tf32(acc[m][n], a[m], b[n]);
    }
  };

  for (int step = 0; step < steps; ++step) {
    load();
    ptx::cp_async_wait_group<0>();
    __syncthreads();                                  // everyone's part of the tile has landed
    multiply();
    __syncthreads();                                  // everyone is done with the tile
  }

  // --- Epilogue -------------------------------------------------------------------------
  const int c_row = tile::acc_row(lane), c_col = warp_n + tile::acc_col(lane);
  for (int m = 0; m < WM / MMA_M; ++m)
    for (int half = 0; half < 2; ++half) {
      T* c = &g.C[size_t(m0 + warp_m + m * MMA_M + half * 8 + c_row) * g.N + n0];
      for (int n = 0; n < WN / MMA_N; ++n)
        *reinterpret_cast<float2*>(c + c_col + n * MMA_N) =
            make_float2(acc[m][n][half * 2], acc[m][n][half * 2 + 1]);
    }
}
