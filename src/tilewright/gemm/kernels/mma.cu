// mma: products of 16-bit matrices of any shape, strides and alignment, from sm_80 on.
//
// Grown from ladder/hgemm: a ring of STAGES tiles, ldmatrix for the next products between these,
// 64-wide fragments in registers. What it adds: each operand lies in shared memory the way round
// that it lies in memory (A_K, B_K: along K), copied VEC_A and VEC_B elements at a time, and
// ldmatrix turns what mma wants turned; the edges in M, N and K are zeros; D is stored from the
// accumulators.
#include "tile/strided_args.cuh"
#include "tile/epilogue_call.cuh"
#include "tile/fragment.cuh"
#include "tile/raster.cuh"
#include "tile/strided_copy.cuh"
#include "tile/strided_store.cuh"
#include "tile/swizzle.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/ldmatrix_x4_pairs.cuh"
#include "ptx/ldmatrix_x4_trans.cuh"
#include "ptx/ldmatrix_x4_trans_one.cuh"
#include "ptx/mma.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK elements a block, WM, WN of the product a warp, STAGES, SMEM_BYTES and BLOCKS a
// multiprocessor come from gemm/kernels/mma.py.
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;      // per instruction
constexpr int WARPS_N = BN / WN, THREADS = 32 * (BM / WM) * WARPS_N;
constexpr int PAIRS = WN / (2 * MMA_N);               // of neighbouring fragments of B, per warp
constexpr int OUT_BN = BN / COLUMNS, OUT_WN = WN / COLUMNS;  // columns of D
static_assert(BK / MMA_K % 2 == 0, "each step of K begins with the first set of fragments");
static_assert(PAIRS % COLUMNS == 0, "a warp has both columns of each gate");

// --- Smem -------------------------------------------------------------------------------
struct Smem {
  struct {
    T A[BM * BK];
    T B[BK * BN];
  } ring[STAGES];
};
static_assert(sizeof(Smem) == SMEM_BYTES, "mma.py and Smem disagree");

template <int COLS>
struct Swizzled {                                     // rows of COLS elements
  static __device__ __forceinline__ int at(int row, int col) {
    return row * COLS + (COLS == 32 ? tile::swizzle_a(row, col) : tile::swizzle_b(row, col));
  }
};
using InA = Swizzled<A_K ? BK : BM>;
using InB = Swizzled<B_K ? BK : BN>;
using CopyA = tile::StridedCopy<T, InA, A_K, A_K ? BM : BK, A_K ? BK : BM, VEC_A, THREADS, 1>;
using CopyB = tile::StridedCopy<T, InB, B_K, B_K ? BN : BK, B_K ? BK : BN, VEC_B, THREADS, COLUMNS>;

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS)
void gemm(const __grid_constant__ StridedArgs g, const __grid_constant__ EPILOGUE e) {
  extern __shared__ __align__(128) unsigned char raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);

  // --- Who am I -------------------------------------------------------------------------
  const int out_n = g.N / COLUMNS;
  const int tiles_m = (g.M + BM - 1) / BM, tiles_n = (out_n + OUT_BN - 1) / OUT_BN;
  const int batch = blockIdx.x / (tiles_m * tiles_n);
  const tile::Tile at = tile::raster<8>(blockIdx.x % (tiles_m * tiles_n), tiles_m, tiles_n);
  const int m0 = at.m * BM, n0 = at.n * OUT_BN;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_m = warp / WARPS_N * WM, warp_n = warp % WARPS_N * OUT_WN;
  // The element that this lane addresses in a 16x16 square: where mma's order is that of the rows,
  // and where it is the other one.
  const int row = tile::ldmatrix_row(lane), col = tile::ldmatrix_col(lane);
  const int turned_row = lane / 16 * 8 + lane % 8, turned_col = lane / 8 % 2 * 8;

  // --- Main loop ------------------------------------------------------------------------
  const int steps = (g.K - 1) / BK + 1;
  CopyA copy_a(g.A + batch * g.A_batch, g.A_row, g.A_col, m0, g.M, g.K);
  CopyB copy_b(g.B + batch * g.B_batch, g.B_col, g.B_row, n0, out_n, g.K);
  auto start = [&](int step, int slot) {
    if (step < steps) {
      copy_a.start(ptx::shared_address(s.ring[slot].A));
      copy_b.start(ptx::shared_address(s.ring[slot].B));
    }
    ptx::cp_async_commit_group();
  };
  auto finish = [&](int step, int slot) {
    if (step < steps) {
      copy_a.finish(s.ring[slot].A);
      copy_b.finish(s.ring[slot].B);
    }
  };
  float acc[WM / MMA_M][2 * PAIRS][4] = {};
  ptx::u32 a[2][WM / MMA_M][4], b[2][2 * PAIRS][2];   // this k16 and the next
  auto fetch = [&](int slot, int k) {
    const int to = k / MMA_K % 2;
#pragma unroll
    for (int i = 0; i < WM / MMA_M; ++i) {
      const int m = warp_m + i * MMA_M;
      if (A_K) ptx::ldmatrix_x4(a[to][i], &s.ring[slot].A[InA::at(m + row, k + col)]);
      else ptx::ldmatrix_x4_trans(a[to][i],
                                  &s.ring[slot].A[InA::at(k + turned_row, m + turned_col)]);
    }
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {                 // of a gate: first its columns, then the others
      const int part = i / (PAIRS / COLUMNS);
      const int n = part * OUT_BN + warp_n + i % (PAIRS / COLUMNS) * 2 * MMA_N;
      if (B_K) ptx::ldmatrix_x4_pairs(b[to][2 * i], b[to][2 * i + 1],
                                      &s.ring[slot].B[InB::at(n + turned_row, k + turned_col)]);
      else ptx::ldmatrix_x4_trans(b[to][2 * i], b[to][2 * i + 1],
                                  &s.ring[slot].B[InB::at(k + row, n + col)]);
    }
  };
  auto multiply = [&](int k) {
#pragma unroll
    for (int m = 0; m < WM / MMA_M; ++m)
#pragma unroll
      for (int i = 0; i < 2 * PAIRS; ++i) {
        const int n = m % 2 ? 2 * PAIRS - 1 - i : i;  // there and back: neighbours share a b
        ptx::mma_m16n8k16<T>(acc[m][n], a[k / MMA_K % 2][m], b[k / MMA_K % 2][n]);
      }
  };
  auto next = [](int slot) { return slot + 1 == STAGES ? 0 : slot + 1; };

  for (int step = 0; step < STAGES - 1; ++step) {
    start(step, step);
    finish(step, step);
  }
  ptx::cp_async_wait_group<STAGES - 2>();
  __syncthreads();                                    // the first tile is here
  fetch(0, 0);
  int slot = 0, fill = STAGES - 1;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const int coming = step + STAGES - 1;
    start(coming, fill);
#pragma unroll
    for (int k = 0; k < BK; k += MMA_K) {
      if (k + MMA_K == BK) {
        finish(coming, fill);
        ptx::cp_async_wait_group<STAGES - 2>();
        __syncthreads();                              // the next tile is here, this one read
        if (step + 1 < steps) slot = next(slot);      // after the last: read the same again
      }
      fetch(slot, (k + MMA_K) % BK);
      multiply(k);
    }
    fill = next(fill);
  }

  // --- Epilogue -------------------------------------------------------------------------
  EPILOGUE epilogue = e;
  tile::select(epilogue, batch, 0);
  // With 16-bit results two lanes exchange, so that each has four neighbours of one fragment.
  constexpr int RUN = sizeof(OUT) == 2 && VEC_D >= 4 ? 4 : 2;
  const bool odd = RUN == 4 && lane % 2;
#pragma unroll
  for (int m = 0; m < 2 * (WM / MMA_M); ++m) {        // halves of fragments
    const int at_m = m0 + warp_m + m * 8 + tile::acc_row(lane);
    OUT* d = g.D + batch * g.D_batch + at_m * g.D_row;
    const int half = m % 2 * 2;
#pragma unroll
    for (int n = 0; n < OUT_WN / MMA_N; n += RUN / 2) {
      const int first = n0 + warp_n + n * MMA_N + tile::acc_col(lane);
      float values[RUN];
#pragma unroll
      for (int i = 0; i < RUN; ++i) {
        const float* sums = acc[m / 2][n + i / 2] + half;
        const float* ups = acc[m / 2][(n + i / 2 + OUT_WN / MMA_N) % (2 * PAIRS)] + half;
        const int at_n = first + i / 2 * MMA_N + i % 2;
        values[i] = at_m < g.M && at_n < out_n
                        ? tile::finished<COLUMNS, SWAPPED>(epilogue, sums[i % 2], ups[i % 2], at_m,
                                                           at_n)
                        : 0;
      }
      int at_n = first;
      if constexpr (RUN == 4) {
        const float low = __shfl_xor_sync(~0u, odd ? values[0] : values[2], 1);
        const float high = __shfl_xor_sync(~0u, odd ? values[1] : values[3], 1);
        (odd ? values[0] : values[2]) = low;
        (odd ? values[1] : values[3]) = high;
        at_n += odd ? MMA_N - 2 : 0;
      }
      if (at_m < g.M) tile::store_row<VEC_D>(d + at_n * g.D_col, g.D_col, values, out_n - at_n);
    }
  }
}
