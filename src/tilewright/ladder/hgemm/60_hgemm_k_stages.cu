// hgemm_k_stages: a ring of STAGES slots; two tiles are on their way while one is multiplied.
//
// Idea      keep STAGES - 1 groups of copies in flight and wait for the oldest alone: its data have
//           STAGES - 1 steps to arrive instead of one. Every step commits a group, an empty one
//           near the end of K, so that wait_group may count.
// Expect    the same wavefronts and sectors as hgemm_bcf_dbf_rw, 48 KiB instead of 32: still two
//           blocks on every GPU. It helps where one step of work is shorter than a load.
// Found     by the emulator the same wavefronts and sectors, as expected. 4096³ bf16 on an H200:
//           405.3 µs, 339.1 TFLOP/s, 0.51 of torch (2026-11-30T12:21:04Z).
// Next      hgemm_bk64 makes the rows of A 128 bytes long.
#include "tile/gemm_args.cuh"
#include "tile/fragment.cuh"
#include "tile/raster.cuh"
#include "tile/swizzle.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/cvt.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 128, 128, 32 elements a block, STAGES = 3 and SMEM_BYTES come from ladder/rungs.py.
constexpr int WM = 64, WN = 32;                       // elements of C per warp
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;      // per instruction
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
constexpr int CHUNK = 8;                              // elements in the 16 bytes of one copy
constexpr int A_ROWS = THREADS * CHUNK / BK;          // rows that the block copies at once
constexpr int B_ROWS = THREADS * CHUNK / BN;

// --- Smem -------------------------------------------------------------------------------
union Smem {
  struct {
    T A[STAGES][BM * BK];
    T B[STAGES][BK * BN];
  };
  T C[BM * BN];                                       // after the main loop: the same bytes
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
  auto load = [&](int slot) {
    T* a_to = &s.A[slot][a_row * BK + tile::swizzle_a(a_row, a_col)];
    T* b_to = &s.B[slot][b_row * BN + tile::swizzle_b(b_row, b_col)];
    for (int i = 0; i < BM; i += A_ROWS)
      ptx::cp_async_cg_16(a_to + i * BK, a_from + size_t(i) * g.K);
    for (int i = 0; i < BK; i += B_ROWS)
      ptx::cp_async_cg_16(b_to + i * BN, b_from + size_t(i) * g.N);
    a_from += BK;
    b_from += size_t(BK) * g.N;
  };
  auto multiply = [&](int slot) {
    for (int k = 0; k < BK; k += MMA_K) {
      ptx::u32 a[WM / MMA_M][4], b[WN / MMA_N][2];
      const T* a_rows = &s.A[slot][(warp_m + row) * BK + tile::swizzle_a(row, k + col)];
      for (int m = 0; m < WM / MMA_M; ++m) ptx::ldmatrix_x4(a[m], a_rows + m * MMA_M * BK);
      const T* b_rows = &s.B[slot][(k + row) * BN];
      for (int n = 0; n < WN / MMA_N; ++n)
        ptx::ldmatrix_x2_trans(b[n], b_rows + tile::swizzle_b(row, warp_n + n * MMA_N));
      for (int m = 0; m < WM / MMA_M; ++m)
        for (int n = 0; n < WN / MMA_N; ++n) ptx::mma_m16n8k16<T>(acc[m][n], a[m], b[n]);
    }
  };

  // Every step commits a group, an empty one where K is at its end: so the count of groups that
  // may be in flight stays the same.
  for (int slot = 0; slot < STAGES - 1; ++slot) {
    if (slot < steps) load(slot);
    ptx::cp_async_commit_group();
  }
#pragma unroll STAGES                                   // makes the slot a constant
  for (int step = 0; step < steps; ++step) {
    ptx::cp_async_wait_group<STAGES - 2>();
    __syncthreads();                                  // this tile is here, the last one's slot free
    if (step + STAGES - 1 < steps) load((step + STAGES - 1) % STAGES);
    ptx::cp_async_commit_group();
    multiply(step % STAGES);
  }

  // --- Epilogue -------------------------------------------------------------------------
  __syncthreads();                                    // everyone is done with A and B
  const int c_row = tile::acc_row(lane), c_col = warp_n + tile::acc_col(lane);
  for (int m = 0; m < WM / MMA_M; ++m)
    for (int half = 0; half < 2; ++half) {
      T* c = &s.C[(warp_m + m * MMA_M + half * 8 + c_row) * BN];
      for (int n = 0; n < WN / MMA_N; ++n)
        *reinterpret_cast<ptx::u32*>(c + tile::swizzle_c(c_row, c_col + n * MMA_N)) =
            ptx::cvt_rn_x2<T>(acc[m][n][half * 2], acc[m][n][half * 2 + 1]);
    }
  __syncthreads();                                    // all of C is staged
  for (int row = b_row; row < b_row + BM; row += B_ROWS)
    *reinterpret_cast<uint4*>(&g.C[size_t(m0 + row) * g.N + n0 + b_col]) =
        *reinterpret_cast<const uint4*>(&s.C[row * BN + tile::swizzle_c(row, b_col)]);
}
