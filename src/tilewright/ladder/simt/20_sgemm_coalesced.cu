// sgemm_coalesced: the same threads, numbered along the rows of C.
//
// Idea      neighbouring lanes take neighbouring columns: what a warp reads of B and stores of C
//           is then one row of 128 bytes, and all its lanes read the same element of A.
// Expect    5 sectors for each k of a warp instead of 33: 4 of B and 1 of A; a store of C fills 4
//           sectors instead of an eighth of 32.
// Found     as expected, in the emulator's counts. 4096³ fp32 on an H200: 20,744.6 µs, 6.6 TFLOP/s,
//           0.13 of torch (2026-11-30T12:45:42Z).
// Next      sgemm_shared reads each element of a tile from global memory once for a whole block.
#include "tile/gemm_args.cuh"
#include "tile/raster.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN = 32, 32 elements of C a block, TM, TN = 1, 1 of them a thread, from ladder/rungs.py.
constexpr int THREADS = (BM / TM) * (BN / TN);

extern "C" __global__ __launch_bounds__(THREADS)
void gemm(const __grid_constant__ GemmArgs g) {       // C[M, N] = A[M, K] * B[K, N]
  // --- Who am I -------------------------------------------------------------------------
  const tile::Tile at = tile::raster<8>(blockIdx.x, g.M / BM, g.N / BN);
  const int m0 = at.m * BM, n0 = at.n * BN;
  const unsigned thread = threadIdx.x;
  const int row = thread / BN, col = thread % BN;       // a warp: one row of C

  // --- Main loop ------------------------------------------------------------------------
  float acc = 0;
  const T* a = &g.A[size_t(m0 + row) * g.K];
  const T* b = &g.B[n0 + col];
  for (int k = 0; k < g.K; ++k) acc += a[k] * b[size_t(k) * g.N];

  // --- Epilogue -------------------------------------------------------------------------
  g.C[size_t(m0 + row) * g.N + n0 + col] = acc;
}
