// sgemm_best: wide threads and three stages, so that little but FMAs is issued.
//
// Idea      fp32 is bound by the issue of instructions: what is not an FMA takes the place of one.
//           8x16 elements of C a thread make 21 products for each load; cp.async carries both
//           matrices and holds no register, A transposed by copies of 4 bytes; one byte offset
//           takes all addresses from stage to stage, and constants do the rest.
// Expect    2,190 instructions for the 2,048 FMAs of a K tile, and lanes in squares so that a load
//           of 16 bytes takes 2 wavefronts instead of 3: above 0.95 of cuBLAS on an H200.
// Found     2,191 machine instructions on sm_90, 7 beside each 100 FMAs, where the rung before has
//           10; and 0.54 of its wavefronts of shared memory, in the emulator's counts. 4096³ fp32
//           on an H200: 2,766.7 µs, 49.7 TFLOP/s, 0.97 of torch (2026-11-30T12:45:42Z). 0.97 at
//           8192³. Panels of 4 tile columns gave 0.3 % over 8.
// Next      the end of this ladder: what is left is the order in which the machine code loads.
#include "tile/gemm_args.cuh"
#include "tile/raster.cuh"
#include "tile/vector.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/cp_async_at.cuh"
#include "ptx/ld_shared.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 128, 256, 16 elements a block, TM, TN = 8, 16 of C a thread and STAGES = 3 come from
// ladder/rungs.py.
constexpr int WM = 64, WN = 64;                       // elements of C per warp
constexpr int LANES_M = WM / TM, LANES_N = WN / TN;   // 8x4 threads
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
constexpr int CHUNK = tile::CHUNK;                    // elements in 16 bytes
constexpr int A_ROWS = THREADS / BK;                  // rows that the block copies at once
constexpr int B_ROWS = THREADS * CHUNK / BN;

// --- Smem -------------------------------------------------------------------------------
constexpr int PITCH = BM + CHUNK;                     // of A: K columns start 4 banks apart
struct Stage {
  T A[BK * PITCH];                                    // transposed
  T B[BK * BN];
};
struct Smem { Stage stage[STAGES]; };
static_assert(sizeof(Smem) == SMEM_BYTES, "the rung table and Smem disagree");

extern "C" __global__ __launch_bounds__(THREADS, 1)
void gemm(const __grid_constant__ GemmArgs g) {       // C[M, N] = A[M, K] * B[K, N]
  extern __shared__ __align__(128) unsigned char raw[];
  Stage& s = reinterpret_cast<Smem*>(raw)->stage[0];

  // --- Who am I -------------------------------------------------------------------------
  const tile::Tile at = tile::raster<4>(blockIdx.x, g.M / BM, (g.N + BN - 1) / BN);
  const int m0 = at.m * BM, n0 = at.n * BN;
  const int thread = threadIdx.x;                       // unsigned costs 15 instructions a step
  const int lane = thread % 32, warp = thread / 32;
  const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;
  // Eight lanes, which are served at once, read two chunks of A and four of B: none twice.
  const int row = warp_m + (lane / 8 * 2 + lane / 2 % 2) * CHUNK;
  const int col = warp_n + (lane / 4 % 2 * 2 + lane % 2) * CHUNK;
  const int a_row = thread / BK, a_col = thread % BK;
  const int b_row = thread / (BN / CHUNK), b_col = thread % (BN / CHUNK) * CHUNK;

  // --- Main loop ------------------------------------------------------------------------
  const int steps = g.K / BK, a_pitch = g.K, b_pitch = g.N;
  float acc[TM][TN] = {};
  const T* a_from = &g.A[size_t(m0 + a_row) * g.K + a_col];
  // Where N ends in the middle of the tile, its right half holds the left one once more.
  const int b_n = n0 + b_col < g.N ? n0 + b_col : n0 + b_col - BN / 2;
  const T* b_from = &g.B[size_t(b_row) * g.N + b_n];
  const ptx::u32 a_to = ptx::shared_address(&s.A[a_col * PITCH + a_row]);
  const ptx::u32 b_to = ptx::shared_address(&s.B[b_row * BN + b_col]);
  const ptx::u32 a_at = ptx::shared_address(&s.A[row]), b_at = ptx::shared_address(&s.B[col]);
  auto load = [&](ptx::u32 slot) {                    // the offset of a stage, in bytes
    const T *a = a_from, *b = b_from;
    for (int i = 0; i < BM; i += A_ROWS, a += size_t(A_ROWS) * a_pitch)
      ptx::cp_async_ca_4_at(a_to + slot + i * sizeof(T), a);
    for (int i = 0; i < BK; i += B_ROWS, b += size_t(B_ROWS) * b_pitch)
      ptx::cp_async_cg_16_at(b_to + slot + i * BN * sizeof(T), b);
    a_from += BK;
    b_from += size_t(BK) * b_pitch;
  };
  auto multiply = [&](ptx::u32 slot) {
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      T a[TM], b[TN];
      for (int i = 0; i < TM; i += CHUNK)
        ptx::ld_shared_v4(&a[i], a_at + slot + (k * PITCH + i * LANES_M) * sizeof(T));
      for (int j = 0; j < TN; j += CHUNK)
        ptx::ld_shared_v4(&b[j], b_at + slot + (k * BN + j * LANES_N) * sizeof(T));
      for (int i = 0; i < TM; ++i)
        for (int n = 0; n < TN; ++n) {
          const int j = i % 2 ? TN - 1 - n : n;       // there and back: b[j] stays at hand
          acc[i][j] += a[i] * b[j];
        }
    }
  };
  auto next = [](ptx::u32 slot) {
    return slot + sizeof(Stage) == sizeof(Smem) ? 0 : ptx::u32(slot + sizeof(Stage));
  };

  for (int step = 0; step < STAGES - 1; ++step) {
    if (step < steps) load(step * sizeof(Stage));
    ptx::cp_async_commit_group();
  }
  ptx::u32 slot = 0, free = (STAGES - 1) * sizeof(Stage);
  ptx::cp_async_wait_group<STAGES - 2>();
  __syncthreads();                                    // the first tile is here
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if (step + STAGES - 1 < steps) load(free);
    ptx::cp_async_commit_group();
    multiply(slot);
    ptx::cp_async_wait_group<STAGES - 2>();
    __syncthreads();                                  // the next is here, and this one read
    slot = next(slot), free = next(free);
  }

  // --- Epilogue -------------------------------------------------------------------------
  if (n0 + warp_n >= g.N) return;                     // beyond C
  for (int i = 0; i < TM; ++i) {
    T* c = &g.C[size_t(m0 + row + i / CHUNK * LANES_M * CHUNK + i % CHUNK) * g.N + n0 + col];
    for (int j = 0; j < TN; j += CHUNK) tile::copy_chunk(&c[j * LANES_N], &acc[i][j]);
  }
}
