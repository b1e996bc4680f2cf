// sgemm_at_bcf_swizzling_dbf_rw: the next tile is on its way while this one is multiplied.
//
// Idea      two buffers: B is copied to the other one by cp.async, A, which has to be transposed,
//           waits in registers until this tile's products are done. One barrier a step is enough.
// Expect    the latency of the loads is hidden behind 1,024 FMAs a thread, and half of the
//           barriers go. It costs twice the shared memory; registers are full as they were.
// Found     half the barriers, in the emulator's counts. With B in registers as well, 128 are not
//           enough: 600 to 700 bytes would spill. 4096³ fp32 on an H200: 2,801.9 µs, 49.1 TFLOP/s,
//           0.95 of torch (2026-11-30T12:45:42Z).
// Next      sgemm_best asks what the instructions beside the FMAs are for.
#include "tile/gemm_args.cuh"
#include "tile/raster.cuh"
#include "tile/swizzle_fp32.cuh"
#include "tile/vector.cuh"
#include "ptx/cp_async.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 128, 128, 16 elements a block, TM, TN = 8, 8 of C a thread, from ladder/rungs.py.
constexpr int THREADS_N = BN / TN, THREADS = (BM / TM) * THREADS_N;
constexpr int CHUNK = tile::CHUNK;                    // elements in the 16 bytes of one copy
constexpr int A_ROWS = THREADS * CHUNK / BK;          // rows that the block copies at once
constexpr int B_ROWS = THREADS * CHUNK / BN;

// --- Smem -------------------------------------------------------------------------------
struct Smem {
  T A[2][BK * BM];                                    // transposed
  T B[2][BK * BN];
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
  const int row = thread / THREADS_N * TM, col = thread % THREADS_N * CHUNK;
  const int a_row = thread / (BK / CHUNK), a_col = thread % (BK / CHUNK) * CHUNK;
  const int b_row = thread / (BN / CHUNK), b_col = thread % (BN / CHUNK) * CHUNK;

  // --- Main loop ------------------------------------------------------------------------
  const int steps = g.K / BK;
  float acc[TM][TN] = {};
  const T* a_from = &g.A[size_t(m0 + a_row) * g.K + a_col];
  const T* b_from = &g.B[size_t(b_row) * g.N + n0 + b_col];
  T held[BM / A_ROWS][CHUNK];                         // on its way to be transposed
  auto load = [&](int slot) {
    for (int i = 0; i < BM; i += A_ROWS)
      tile::copy_chunk(held[i / A_ROWS], &a_from[size_t(i) * g.K]);
    for (int i = 0; i < BK; i += B_ROWS)
      ptx::cp_async_cg_16(&s.B[slot][(b_row + i) * BN + b_col], &b_from[size_t(i) * g.N]);
    ptx::cp_async_commit_group();
    a_from += BK;
    b_from += size_t(BK) * g.N;
  };
  auto store = [&](int slot) {
    for (int i = 0; i < BM; i += A_ROWS)
      for (int e = 0; e < CHUNK; ++e)
        s.A[slot][(a_col + e) * BM + tile::swizzle_at(a_col, a_row) + i] = held[i / A_ROWS][e];
  };
  auto multiply = [&](int slot) {
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float a[TM], b[TN];
      for (int i = 0; i < TM; i += CHUNK)
        tile::copy_chunk(&a[i], &s.A[slot][k * BM + tile::swizzle_at(k, row + i)]);
      for (int j = 0; j < TN; j += CHUNK)
        tile::copy_chunk(&b[j], &s.B[slot][k * BN + col + j * THREADS_N]);
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
    }
  };

  load(0);
  store(0);
#pragma unroll 2                                        // makes the slot a constant
  for (int step = 0; step < steps; ++step) {
    ptx::cp_async_wait_group<0>();
    __syncthreads();                                  // this tile is here, the other slot free
    if (step + 1 < steps) load((step + 1) % 2);
    multiply(step % 2);
    if (step + 1 < steps) store((step + 1) % 2);
  }

  // --- Epilogue -------------------------------------------------------------------------
  for (int i = 0; i < TM; ++i) {
    T* c = &g.C[size_t(m0 + row + i) * g.N + n0 + col];
    for (int j = 0; j < TN; j += CHUNK) tile::copy_chunk(&c[j * THREADS_N], &acc[i][j]);
  }
}
