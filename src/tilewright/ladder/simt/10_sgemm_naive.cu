// sgemm_naive: a thread computes one element of C, straight from global memory.
//
// Idea      one thread for each element of C: it walks K, reads an element of A and one of B, and
//           adds their product to a register. Nothing is shared but what the caches keep.
// Expect    threads are numbered down the columns of C, so a warp reads 32 rows of A: 32 sectors
//           of 32 bytes for 32 elements of 4, and as many when it stores C.
// Found     as expected, in the emulator's counts: 33 sectors for each k of a warp, 32 of them A's.
//           4096³ fp32 on an H200: 275,814.2 µs, 0.5 TFLOP/s, 0.01 of torch (2026-11-30T12:45:42Z).
// Next      sgemm_coalesced numbers the threads along the rows of C.
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
  const int row = thread % BM, col = thread / BM;       // a warp: one column of C

  // --- Main loop ------------------------------------------------------------------------
  float acc = 0;
  const T* a = &g.A[size_t(m0 + row) * g.K];
  const T* b = &g.B[n0 + col];
  for (int k = 0; k < g.K; ++k) acc += a[k] * b[size_t(k) * g.N];

  // --- Epilogue -------------------------------------------------------------------------
  g.C[size_t(m0 + row) * g.N + n0 + col] = acc;
}
