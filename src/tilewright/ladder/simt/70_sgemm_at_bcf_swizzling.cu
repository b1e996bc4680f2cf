// sgemm_at_bcf_swizzling: A's transposed tile is swizzled, and stored without bank conflicts.
//
// Idea      XOR the place of an element in its K column with 8 times the chunk of k that it came
//           from: the four lanes that held one row of A then store it 8 banks apart.
// Expect    a store of A takes 1 wavefront instead of 4; the loads stay as they were, for the
//           swizzle moves whole chunks of 16 bytes.
// Found     as expected, in the emulator's counts, at the price of 2 % more instructions: K columns
//           swizzled in four ways need four addresses. 4096³ fp32 on an H200: 3,248.3 µs, 42.3
//           TFLOP/s, 0.82 of torch (2026-11-30T12:45:42Z).
// Next      sgemm_at_bcf_swizzling_rw frees the loads of B and the stores of C, too.
#include "tile/gemm_args.cuh"
#include "tile/raster.cuh"
#include "tile/swizzle_fp32.cuh"
#include "tile/vector.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 128, 128, 16 elements a block, TM, TN = 8, 8 of C a thread, from ladder/rungs.py.
constexpr int THREADS_N = BN / TN, THREADS = (BM / TM) * THREADS_N;
constexpr int CHUNK = tile::CHUNK;                    // elements in the 16 bytes of one copy
constexpr int A_ROWS = THREADS * CHUNK / BK;          // rows that the block copies at once
constexpr int B_ROWS = THREADS * CHUNK / BN;

// --- Smem -------------------------------------------------------------------------------
struct Smem {
  T A[BK * BM];                                       // transposed
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
    for (int i = 0; i < BM; i += A_ROWS) {
      T a[CHUNK];
      tile::copy_chunk(a, &a_from[size_t(i) * g.K]);
      for (int e = 0; e < CHUNK; ++e)
        s.A[(a_col + e) * BM + tile::swizzle_at(a_col, a_row) + i] = a[e];
    }
    for (int i = 0; i < BK; i += B_ROWS)
      tile::copy_chunk(&s.B[(b_row + i) * BN + b_col], &b_from[size_t(i) * g.N]);
    a_from += BK;
    b_from += size_t(BK) * g.N;
  };
  auto multiply = [&] {
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float a[TM], b[TN];
      for (int i = 0; i < TM; i += CHUNK)
        tile::copy_chunk(&a[i], &s.A[k * BM + tile::swizzle_at(k, row + i)]);
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
