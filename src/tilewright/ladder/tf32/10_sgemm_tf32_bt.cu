// sgemm_tf32_bt: fp32 matrices on Tensor Cores, B transposed so that ldmatrix can read it.
//
// Idea      mma multiplies fp32 elements rounded to tf32, at eight times the FMAs' rate. ldmatrix
//           transposes 16-bit elements only, so B is turned on its way into shared memory: each
//           thread loads four of a row and stores them to four rows of Bt, each with K in a line.
// Expect    no time for conflicts to be small: ldmatrix reads rows of 64 bytes by 4-way conflicts,
//           and 32 lanes that store to every fourth row meet one bank: 32-way.
// Found     the conflicts as expected, in the emulator's counts: the stores alone take five times the
//           wavefronts that all fragments need. 4096³ tf32 on an H200: 4,477.9 µs, 30.7 TFLOP/s,
//           0.09 of torch (2026-11-30T13:57:41Z).
// Next      sgemm_tf32_bt_swizzle moves the chunks of each row apart.
#include "tile/gemm_args.cuh"
#include "tile/fragment_tf32.cuh"
#include "tile/raster.cuh"
#include "tile/round_tf32.cuh"
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
  T B[BN * BK];                                       // transposed
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
  const int b_row = thread / (BN / CHUNK), b_col = thread % (BN / CHUNK) * CHUNK;

  // --- Main loop ------------------------------------------------------------------------
  const int steps = g.K / BK;
  float acc[WM / MMA_M][WN / MMA_N][4] = {};
  const T* a_from = &g.A[size_t(m0 + a_row) * g.K + a_col];
  const T* b_from = &g.B[size_t(b_row) * g.N + n0 + b_col];
  auto load = [&] {
    T* a_to = &s.A[a_row * BK + a_col];
    for (int i = 0; i < BM; i += A_ROWS)
      ptx::cp_async_cg_16(a_to + i * BK, a_from + size_t(i) * g.K);
    T held[BK / B_ROWS][CHUNK];                       // on its way to be transposed
    for (int i = 0; i < BK; i += B_ROWS)
      tile::copy_chunk(held[i / B_ROWS], &b_from[size_t(i) * g.N]);
    ptx::cp_async_commit_group();
    for (int i = 0; i < BK; i += B_ROWS)
      for (int e = 0; e < CHUNK; ++e)
        s.B[(b_col + e) * BK + b_row + i] = held[i / B_ROWS][e];
    a_from += BK;
    b_from += size_t(BK) * g.N;
  };
  auto multiply = [&] {
    for (int k = 0; k < BK; k += MMA_K) {
      ptx::u32 a[WM / MMA_M][4], b[WN / MMA_N][2];
      const T* a_rows = &s.A[(warp_m + row) * BK + k + col];
      for (int m = 0; m < WM / MMA_M; ++m) ptx::ldmatrix_x4(a[m], a_rows + m * MMA_M * BK);
      for (int n = 0; n < WN / MMA_N; n += 2) {
        ptx::u32 bt[4];
        const int bt_row = warp_n + n * MMA_N + row;
        ptx::ldmatrix_x4(bt, &s.B[bt_row * BK + k + col]);
        b[n][0] = bt[0], b[n + 1][0] = bt[1], b[n][1] = bt[2], b[n + 1][1] = bt[3];
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
