// hgemm_best: 256x128 tiles, ldmatrix between the products, blocks that stay for many tiles.
//
// Idea      one block a multiprocessor works off tile after tile: the ring runs on into the next
//           tile, so its first copies land during this one's last products, and each warp stages
//           and stores C by itself while others multiply. Panels of 16: 132 tiles in a square.
// Expect    704 wavefronts for a product of 128x128x64 (hgemm_w64: 768), a quarter less to copy;
//           no wait at the ends of tiles. 160 KiB, so sm_86, sm_89 and sm_120 are refused.
//           M in multiples of 128: a half tile copies its upper rows twice, and stores them once.
// Found     by the emulator as expected: nothing unset is read, also by the fragments after the
//           last step, and every access is at its ideal. 4096³ bf16 on an H200: 310.3 µs, 443.0
//           TFLOP/s, 0.67 of torch (2026-11-30T12:21:04Z). 0.69 at 8192³. The GPU is at its power
//           cap there.
// Next      mma.sync itself binds now; only wgmma goes further.
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
// BM, BN, BK = 256, 128, 64 elements a block, STAGES = 3 and SMEM_BYTES come from ladder/rungs.py.
constexpr int WM = 64, WN = 64;                       // elements of C per warp
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;      // per instruction
constexpr int WARPS = (BM / WM) * (BN / WN), THREADS = 32 * WARPS;
static_assert(BK / MMA_K % 2 == 0, "each step of K begins with the first set of fragments");
constexpr int CHUNK = 8;                              // elements in the 16 bytes of one copy
constexpr int A_ROWS = THREADS * CHUNK / BK;          // rows that the block copies at once
constexpr int B_ROWS = THREADS * CHUNK / BN;
constexpr int C_ROWS = 32 * CHUNK / WN;               // rows that a warp stores at once

// --- Smem -------------------------------------------------------------------------------
struct Smem {
  struct {
    T A[BM * BK];
    T B[BK * BN];
  } ring[STAGES];
  T C[WARPS][MMA_M * WN];                             // each warp's own: no barrier of the block
};
static_assert(WM / MMA_M == WN / (2 * MMA_N), "fetch() takes a quarter of A with one of B");
static_assert(sizeof(Smem) == SMEM_BYTES, "the rung table and Smem disagree");

extern "C" __global__ __launch_bounds__(THREADS, 1)
void gemm(const __grid_constant__ GemmArgs g) {       // C[M, N] = A[M, K] * B[K, N]
  extern __shared__ __align__(128) unsigned char raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);

  // --- Who am I -------------------------------------------------------------------------
  const int tiles_m = (g.M + BM - 1) / BM, tiles_n = g.N / BN, tiles = tiles_m * tiles_n;
  const unsigned thread = threadIdx.x;
  const int lane = thread % 32, warp = thread / 32;
  const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;
  // The row and column that this lane addresses in ldmatrix, and its first chunk of A and of B.
  const int row = tile::ldmatrix_row(lane), col = tile::ldmatrix_col(lane);
  const int a_row = thread / (BK / CHUNK), a_col = thread % (BK / CHUNK) * CHUNK;
  const int b_row = thread / (BN / CHUNK), b_col = thread % (BN / CHUNK) * CHUNK;
  const int c_row = lane / (WN / CHUNK), c_col = lane % (WN / CHUNK) * CHUNK;

  // --- Main loop ------------------------------------------------------------------------
  const int steps = g.K / BK;
  int copied = blockIdx.x, copied_steps = 0;          // the tile that load() is at
  const T *a_from, *b_from;
  size_t lower;                                       // from A's upper half to the lower one
  auto aim = [&] {
    const tile::Tile at = tile::raster<16>(copied, tiles_m, tiles_n);
    a_from = &g.A[size_t(at.m * BM + a_row) * g.K + a_col];
    b_from = &g.B[size_t(b_row) * g.N + at.n * BN + b_col];
    lower = at.m * BM + BM / 2 < g.M ? size_t(BM / 2) * g.K : 0;  // past M: the upper half again
  };
  auto load = [&](int slot) {
    if (copied < tiles) {
      T* a_to = &s.ring[slot].A[a_row * BK + tile::swizzle_b(a_row, a_col)];
      T* b_to = &s.ring[slot].B[b_row * BN + tile::swizzle_b(b_row, b_col)];
      for (int i = 0; i < BM / 2; i += A_ROWS)
        ptx::cp_async_cg_16(a_to + i * BK, a_from + size_t(i) * g.K);
      for (int i = 0; i < BM / 2; i += A_ROWS)
        ptx::cp_async_cg_16(a_to + (BM / 2 + i) * BK, a_from + lower + size_t(i) * g.K);
      for (int i = 0; i < BK; i += B_ROWS)
        ptx::cp_async_cg_16(b_to + i * BN, b_from + size_t(i) * g.N);
      a_from += BK;
      b_from += size_t(BK) * g.N;
      if (++copied_steps == steps) {
        copied_steps = 0;
        copied += gridDim.x;
        if (copied < tiles) aim();
      }
    }
    ptx::cp_async_commit_group();
  };
  float acc[WM / MMA_M][WN / MMA_N][4] = {};
  ptx::u32 a[2][WM / MMA_M][4], b[2][WN / MMA_N][2];  // this k16 and the next
  auto fetch = [&](int slot, int k, int part) {       // a quarter of the fragments at k
    const int to = k / MMA_K % 2, m = warp_m + part * MMA_M, n = warp_n + part * 2 * MMA_N;
    const T* a_rows = &s.ring[slot].A[(m + row) * BK];
    const T* b_rows = &s.ring[slot].B[(k + row) * BN];
    ptx::ldmatrix_x4(a[to][part], a_rows + tile::swizzle_b(row, k + col));
    ptx::ldmatrix_x4_trans(b[to][2 * part], b[to][2 * part + 1],
                           b_rows + tile::swizzle_b(row, n + col));
  };
  auto multiply = [&](int k, int m) {                 // there and back: neighbours share a b
    for (int i = 0; i < WN / MMA_N; ++i) {
      const int n = m % 2 ? WN / MMA_N - 1 - i : i;
      ptx::mma_m16n8k16<T>(acc[m][n], a[k / MMA_K % 2][m], b[k / MMA_K % 2][n]);
    }
  };
  auto next = [](int slot) { return slot + 1 == STAGES ? 0 : slot + 1; };

  aim();
  for (int slot = 0; slot < STAGES - 1; ++slot) load(slot);
  ptx::cp_async_wait_group<STAGES - 2>();
  __syncthreads();                                    // the first tile is here
  for (int part = 0; part < WM / MMA_M; ++part) fetch(0, 0, part);
  int slot = 0, fill = STAGES - 1;
  for (int id = blockIdx.x; id < tiles; id += gridDim.x) {
    for (int step = 0; step < steps; ++step) {
      const bool last = step + 1 == steps && id + int(gridDim.x) >= tiles;
#pragma unroll
      for (int k = 0; k < BK; k += MMA_K) {
        if (k + MMA_K == BK) {
          ptx::cp_async_wait_group<STAGES - 2>();
          __syncthreads();                            // the next tile is here, this one read
          slot = last ? slot : next(slot);            // after the last: read the same again
        }
        for (int m = 0; m < WM / MMA_M; ++m) {
          fetch(slot, (k + MMA_K) % BK, m);
          multiply(k, m);
          if (k == 0 && m == 0) {
            load(fill);
            fill = next(fill);
          }
        }
      }
    }

    // --- Epilogue -----------------------------------------------------------------------
    const tile::Tile at = tile::raster<16>(id, tiles_m, tiles_n);
    const int m0 = at.m * BM + warp_m, n0 = at.n * BN + warp_n;
    for (int m = 0; m < WM / MMA_M; ++m) {
      for (int half = 0; half < 2; ++half)
        for (int n = 0; n < WN / MMA_N; ++n) {
          const int to = half * 8 + tile::acc_row(lane);
          float* sums = acc[m][n] + half * 2;
          *reinterpret_cast<ptx::u32*>(
              &s.C[warp][to * WN + tile::swizzle_c(to, n * MMA_N + tile::acc_col(lane))]) =
              ptx::cvt_rn_x2<T>(sums[0], sums[1]);
          sums[0] = sums[1] = 0;
        }
      __syncwarp();                                   // these 16 rows are staged
      for (int i = c_row; i < c_row + MMA_M; i += C_ROWS)
        if (m0 < g.M)
          *reinterpret_cast<uint4*>(&g.C[size_t(m0 + m * MMA_M + i) * g.N + n0 + c_col]) =
              *reinterpret_cast<const uint4*>(&s.C[warp][i * WN + tile::swizzle_c(i, c_col)]);
      __syncwarp();                                   // and on their way
    }
  }
}
