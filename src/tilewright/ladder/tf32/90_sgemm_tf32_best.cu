// sgemm_tf32_best: 256x128 tiles, Ct = Bt * At without a move, blocks that stay for many tiles.
//
// Idea      hgemm_best's: 64x64 elements of C a warp, the next fragments loaded between the products
//           and rounded behind them, a ring of three stages, rows of 128 bytes, one block a
//           multiprocessor that works off tile after tile. New is that B is mma's first operand:
//           what a lane needs of it are pairs of neighbours in a row, which one load of 8 bytes
//           brings to where mma wants them.
// Expect    128 wavefronts for a product of 64x64x32 by one warp instead of 192, by half of the
//           instructions. 144 KiB, so sm_86, sm_89 and sm_120 are refused. M in multiples of 128: a
//           half tile copies its upper rows twice, and stores them once.
// Found     0.63 of the wavefronts, by 0.53 of the loads, in the emulator's counts. 4096³ tf32 on an
//           H200: 656.8 µs, 209.3 TFLOP/s, 0.60 of torch (2026-11-30T13:57:41Z); 0.61 at 8192³.
// Next      mma.sync itself: wgmma multiplies at twice its rate here, as hgemm_best found.
#include "tile/gemm_args.cuh"
#include "tile/raster.cuh"
#include "tile/round_tf32.cuh"
#include "tile/swizzle_tf32.cuh"
#include "tile/transposed_tf32.cuh"
#include "tile/vector.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix_x4_pairs.cuh"
#include "ptx/mma_tf32.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 256, 128, 32 elements a block, STAGES = 3 and SMEM_BYTES come from ladder/rungs.py.
constexpr int WM = 64, WN = 64;                       // elements of C per warp
constexpr int MMA_M = 8, MMA_N = 16, MMA_K = 8;       // per instruction, which computes Ct
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
static_assert(BK / MMA_K % 2 == 0, "each step of K begins with the first set of fragments");
constexpr int CHUNK = tile::CHUNK;                    // elements in the 16 bytes of one copy
constexpr int A_ROWS = THREADS * CHUNK / BK;          // rows that the block copies at once
constexpr int B_ROWS = THREADS * CHUNK / BN;

// --- Smem -------------------------------------------------------------------------------
struct Smem {
  struct {
    T A[BM * BK];
    T B[BK * BN];
  } ring[STAGES];
};
static_assert(WM / (2 * MMA_M) == WN / MMA_N, "fetch() takes a quarter of A with one of B");
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
  // The row and column that this lane addresses in ldmatrix and in B, and its first chunks to copy.
  const int row = tile::at_row(lane), col = tile::at_col(lane);
  const int k_row = tile::bt_k(lane), n_col = tile::bt_n(lane);
  const int a_row = thread / (BK / CHUNK), a_col = thread % (BK / CHUNK) * CHUNK;
  const int b_row = thread / (BN / CHUNK), b_col = thread % (BN / CHUNK) * CHUNK;

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
      T* a_to = &s.ring[slot].A[a_row * BK + tile::swizzle_a128(a_row, a_col)];
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
  float acc[WN / MMA_N][WM / MMA_M][4] = {};
  ptx::u32 bt[2][WN / MMA_N][4], at[2][WM / MMA_M][2];  // this k8 and the next
  auto fetch = [&](int slot, int k, int part) {       // a quarter of the fragments at k
    const int to = k / MMA_K % 2;
    const T* a_rows = &s.ring[slot].A[(warp_m + part * 2 * MMA_M + row) * BK];
    ptx::ldmatrix_x4_pairs(at[to][2 * part], at[to][2 * part + 1],
                           a_rows + tile::swizzle_a128(row, k + col));
    const T* b_rows = &s.ring[slot].B[(k + k_row) * BN];
    const T* pair = b_rows + tile::swizzle_b(k_row, warp_n + part * MMA_N + n_col);
    for (int half = 0; half < 2; ++half) {
      const uint2 two = *reinterpret_cast<const uint2*>(pair + half * 4 * BN);
      bt[to][part][half * 2] = two.x, bt[to][part][half * 2 + 1] = two.y;
    }
  };
  auto round = [&](int k) {
    for (auto& frag : at[k / MMA_K % 2])
      for (auto& word : frag) word = tile::round_tf32(word);
    for (auto& frag : bt[k / MMA_K % 2])
      for (auto& word : frag) word = tile::round_tf32(word);
  };
  auto multiply = [&](int k, int n) {                 // there and back: neighbours share a column
    for (int i = 0; i < WM / MMA_M; ++i) {
      const int m = n % 2 ? WM / MMA_M - 1 - i : i;
      ptx::mma_m16n8k8_tf32(acc[n][m], bt[k / MMA_K % 2][n], at[k / MMA_K % 2][m]);
    }
  };
  auto next = [](int slot) { return slot + 1 == STAGES ? 0 : slot + 1; };

  aim();
  for (int slot = 0; slot < STAGES - 1; ++slot) load(slot);
  ptx::cp_async_wait_group<STAGES - 2>();
  __syncthreads();                                    // the first tile is here
  for (int part = 0; part < WN / MMA_N; ++part) fetch(0, 0, part);
  round(0);
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
        for (int n = 0; n < WN / MMA_N; ++n) {
          fetch(slot, (k + MMA_K) % BK, n);
          multiply(k, n);
          if (k == 0 && n == 0) {
            load(fill);
            fill = next(fill);
          }
        }
        round((k + MMA_K) % BK);
      }
    }

    // --- Epilogue -----------------------------------------------------------------------
    const tile::Tile to = tile::raster<16>(id, tiles_m, tiles_n);
    const int m0 = to.m * BM + warp_m, n0 = to.n * BN + warp_n;
    for (int m = 0; m < WM / MMA_M; ++m)
      for (int i = 0; i < 2; ++i) {                   // of the two rows of C that a lane has
        T* c = &g.C[size_t(m0 + m * MMA_M + tile::ct_m(lane) + i) * g.N + n0 + tile::ct_n(lane)];
        for (int n = 0; n < WN / MMA_N; ++n) {
          float* sums = acc[n][m] + i;
          if (m0 < g.M) *reinterpret_cast<float2*>(c + n * MMA_N) = make_float2(sums[0], sums[2]);
          sums[0] = sums[2] = 0;
        }
      }
  }
}
