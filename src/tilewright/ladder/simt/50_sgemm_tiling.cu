// sgemm_tiling: 16 bytes with each load and store.
//
// Idea      a thread's 8 columns are neighbours now, so that it reads its elements of B, copies
//           tiles and stores C by 16 bytes: a quarter of the instructions for the same bytes.
// Expect    fewer instructions beside the FMAs. But lanes that own 8 neighbours are 32 bytes
//           apart: they read the chunks of B by 2-way bank conflicts, and a store of 16 bytes
//           fills half a sector.
// Found     as expected, in the emulator's counts: 0.78 of the instructions, twice the wavefronts
//           for B, twice the store sectors. The compiler reads A along K, four k at once. 4096³
//           fp32 on an H200: 4,026.6 µs, 34.1 TFLOP/s, 0.66 of torch (2026-11-30T12:45:42Z).
// Next      sgemm_at_tiling lays A down so that a thread's rows are neighbours, too.
#include "tile/gemm_args.cuh"
#include "tile/raster.cuh"
#include "tile/vector.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 128, 128, 16 elements a block, TM, TN = 8, 8 of C a thread, from ladder/rungs.py.
constexpr int THREADS_N = BN / TN, THREADS = (BM / TM) * THREADS_N;
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
  const int row = thread / THREADS_N * TM, col = thread % THREADS_N * TN;
  const int a_row = thread / (BK / CHUNK), a_col = thread % (BK / CHUNK) * CHUNK;
  const int b_row = thread / (BN / CHUNK), b_col = thread % (BN / CHUNK) * CHUNK;

  // --- Main loop ------------------------------------------------------------------------
  const int steps = g.K / BK;
  float acc[TM][TN] = {};
  const T* a_from = &g.A[size_t(m0 + a_row) * g.K + a_col];
  const T* b_from = &g.B[size_t(b_row) * g.N + n0 + b_col];
  auto load = [&] {
    for (int i = 0; i < BM; i += A_ROWS)
      tile::copy_chunk(&s.A[(a_row + i) * BK + a_col], &a_from[size_t(i) * g.K]);
    for (int i = 0; i < BK; i += B_ROWS)
      tile::copy_chunk(&s.B[(b_row + i) * BN + b_col], &b_from[size_t(i) * g.N]);
    a_from += BK;
    b_from += size_t(BK) * g.N;
  };
  auto multiply = [&] {
#pragma unroll 4                                        // all 16 spill registers
    for (int k = 0; k < BK; ++k) {
      float a[TM], b[TN];
      for (int i = 0; i < TM; ++i) a[i] = s.A[(row + i) * BK + k];
      for (int j = 0; j < TN; j += CHUNK) tile::copy_chunk(&b[j], &s.B[k * BN + col + j]);
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
    }
  };

  for (int step = 0; step < steps; ++step) {
    load();
    __syncthreads();                                  // everyone's part of the tile is there
    multiply();
    __syncthreads();                                  // everyone is done with the tile
  }

  // --- Epilogue -------------------------------------------------------------------------
  for (int i = 0; i < TM; ++i) {
    T* c = &g.C[size_t(m0 + row + i) * g.N + n0 + col];
    for (int j = 0; j < TN; j += CHUNK) tile::copy_chunk(&c[j], &acc[i][j]);
  }
}
