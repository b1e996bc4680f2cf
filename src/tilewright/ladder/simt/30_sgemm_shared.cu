// sgemm_shared: a block stages square tiles of A and B in shared memory.
//
// Idea      32x32 threads copy a tile of A and one of B, one element of each a thread, wait for
//           each other, and take 32 products from shared memory: each element that is copied once
//           is used 32 times.
// Expect    the sectors loaded fall 20 times, for a warp copies whole rows, once in 32 k. No bank
//           conflicts: a warp reads one element of A, and 32 neighbours of B. But each product
//           now needs two loads from shared memory, which binds instead.
// Found     as expected, in the emulator's counts, but for the loads: the compiler reads four k of
//           A at once, so it is 1.25 loads a product. 4096³ fp32 on an H200: 14,835.5 µs, 9.3
//           TFLOP/s, 0.18 of torch (2026-11-30T12:45:42Z).
// Next      sgemm_register reuses in registers what a thread reads from shared memory.
#include "tile/gemm_args.cuh"
#include "tile/raster.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 32, 32, 32 elements a block, TM, TN = 1, 1 of C a thread, from ladder/rungs.py.
constexpr int THREADS = (BM / TM) * (BN / TN);
static_assert(BM == BK && BN == BK, "a thread copies one element of A and one of B");

// --- Smem -------------------------------------------------------------------------------
struct Smem {
  T A[BM * BK];
  T B[BK * BN];
};
static_assert(sizeof(Smem) == SMEM_BYTES, "the rung table and Smem disagree");

extern "C" __global__ __launch_bounds__(THREADS)
void gemm(const __grid_constant__ GemmArgs g) {       // C[M, N] = A[M, K] * B[K, N]
  extern __shared__ __align__(128) unsigned char raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);

  // --- Who am I -------------------------------------------------------------------------
  const tile::Tile at = tile::raster<8>(blockIdx.x, g.M / BM, g.N / BN);
  const int m0 = at.m * BM, n0 = at.n * BN;
  const unsigned thread = threadIdx.x;
  const int row = thread / BN, col = thread % BN;       // a warp: one row of C

  // --- Main loop ------------------------------------------------------------------------
  const int steps = g.K / BK;
  float acc = 0;
  const T* a_from = &g.A[size_t(m0 + row) * g.K + col];
  const T* b_from = &g.B[size_t(row) * g.N + n0 + col];
  auto load = [&] {
    s.A[row * BK + col] = *a_from;
    s.B[row * BN + col] = *b_from;
    a_from += BK;
    b_from += size_t(BK) * g.N;
  };
  auto multiply = [&] {
    for (int k = 0; k < BK; ++k) acc += s.A[row * BK + k] * s.B[k * BN + col];
  };

  for (int step = 0; step < steps; ++step) {
    load();
    __syncthreads();                                  // everyone's part of the tile is there
    multiply();
    __syncthreads();                                  // everyone is done with the tile
  }

  // --- Epilogue -------------------------------------------------------------------------
  g.C[size_t(m0 + row) * g.N + n0 + col] = acc;
}
