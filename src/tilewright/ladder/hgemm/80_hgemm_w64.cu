// hgemm_w64: 64x64 a warp, and the fragments of the next k16 load while this one is multiplied.
//
// Idea      for each k a warp of 64x32 reads 96 elements to multiply 2048, one of 64x64 reads 128
//           for 4096. Half as many warps hide less of ldmatrix's latency, so each holds two sets
//           of fragments. One ldmatrix.x4.trans reads two fragments of B.
// Expect    two thirds of the ldmatrix wavefronts; a tile of 128x128x64 takes 768 wavefronts
//           instead of 1024, on an H200 less than its mma does: mma.sync binds from here on.
// Found     by the emulator as expected, without spills in up to 248 registers. 4096³ bf16 on an
//           H200: 340.7 µs, 403.4 TFLOP/s, 0.61 of torch (2026-11-30T12:21:04Z).
// Next      hgemm_best puts ldmatrix between the products and keeps its blocks.
#include "tile/gemm_args.cuh"
#include "tile/fragment.cuh"
#include "tile/raster.cuh"
#include "tile/swizzle.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/cvt.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/ldmatrix_x4_trans.cuh"
#include "ptx/mma.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 128, 128, 64 elements a block, STAGES = 3 and SMEM_BYTES come from ladder/rungs.py.
constexpr int WM = 64, WN = 64;                       // elements of C per warp
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;      // per instruction
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
static_assert(BK / MMA_K % 2 == 0, "each step of K begins with the first set of fragments");
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
    T* a_to = &s.A[slot][a_row * BK + tile::swizzle_b(a_row, a_col)];
    T* b_to = &s.B[slot][b_row * BN + tile::swizzle_b(b_row, b_col)];
    for (int i = 0; i < BM; i += A_ROWS)
      ptx::cp_async_cg_16(a_to + i * BK, a_from + size_t(i) * g.K);
    for (int i = 0; i < BK; i += B_ROWS)
      ptx::cp_async_cg_16(b_to + i * BN, b_from + size_t(i) * g.N);
    a_from += BK;
    b_from += size_t(BK) * g.N;
  };
  ptx::u32 a[2][WM / MMA_M][4], b[2][WN / MMA_N][2];  // this k16 and the next
  auto fetch = [&](int slot, int k) {
    const T* a_rows = &s.A[slot][(warp_m + row) * BK + tile::swizzle_b(row, k + col)];
    for (int m = 0; m < WM / MMA_M; ++m)
      ptx::ldmatrix_x4(a[k / MMA_K % 2][m], a_rows + m * MMA_M * BK);
    const T* b_rows = &s.B[slot][(k + row) * BN];
    for (int n = 0; n < WN / MMA_N; n += 2)
      ptx::ldmatrix_x4_trans(b[k / MMA_K % 2][n], b[k / MMA_K % 2][n + 1],
                             b_rows + tile::swizzle_b(row, warp_n + n * MMA_N + col));
  };
  auto multiply = [&](int k) {
    for (int m = 0; m < WM / MMA_M; ++m)
      for (int n = 0; n < WN / MMA_N; ++n)
        ptx::mma_m16n8k16<T>(acc[m][n], a[k / MMA_K % 2][m], b[k / MMA_K % 2][n]);
  };

  // Every step commits a group, an empty one where K is at its end: so the count of groups that
  // may be in flight stays the same.
  for (int slot = 0; slot < STAGES - 1; ++slot) {
    if (slot < steps) load(slot);
    ptx::cp_async_commit_group();
  }
  ptx::cp_async_wait_group<STAGES - 2>();
  __syncthreads();                                    // the first tile is here
  fetch(0, 0);
#pragma unroll STAGES                                   // makes the slot a constant
  for (int step = 0; step < steps; ++step) {
    if (step + STAGES - 1 < steps) load((step + STAGES - 1) % STAGES);
    ptx::cp_async_commit_group();
#pragma unroll
    for (int k = 0; k < BK; k += MMA_K) {
      if (k + MMA_K < BK) {
        fetch(step % STAGES, k + MMA_K);
      } else if (step + 1 < steps) {
        ptx::cp_async_wait_group<STAGES - 2>();
        __syncthreads();                              // the next tile is here, this one read
        fetch((step + 1) % STAGES, 0);
      }
      multiply(k);
    }
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
