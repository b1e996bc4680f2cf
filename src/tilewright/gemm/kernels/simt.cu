// simt: products of fp32 matrices of any shape, strides and alignment, in fp32, from sm_80 on.
//
// Grown from ladder/simt: TM x TN sums a thread, a ring of STAGES tiles carried by cp.async, both
// operands in shared memory row by row of K, so that a thread reads four neighbours at once. What
// it adds: an operand that lies along K (A_K, B_K) is turned on its way, by copies of 4 bytes; the
// others come VEC_A and VEC_B elements at a time; the edges in M, N and K are zeros.
#include "tile/strided_args.cuh"
#include "tile/epilogue_call.cuh"
#include "tile/raster.cuh"
#include "tile/strided_copy.cuh"
#include "tile/strided_store.cuh"
#include "tile/vector.cuh"
#include "ptx/cp_async.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK elements a block, WM, WN of the product a warp, TM, TN a thread, STAGES, SMEM_BYTES
// and BLOCKS a multiprocessor come from gemm/kernels/simt.py.
constexpr int LANES_M = WM / TM, LANES_N = WN / TN;
constexpr int WARPS_N = BN / WN, THREADS = 32 * (BM / WM) * WARPS_N;
constexpr int CHUNK = tile::CHUNK;                    // elements in 16 bytes
constexpr int OUT_BN = BN / COLUMNS, OUT_WN = WN / COLUMNS, OUT_TN = TN / COLUMNS;  // columns of D
static_assert(LANES_M == 8 && LANES_N == 4 && OUT_TN % CHUNK == 0, "a warp's lanes");

// --- Smem -------------------------------------------------------------------------------
template <int EXTENT, bool TURNED>
struct Turned {                                       // rows of K, 4 banks apart
  static constexpr int PITCH = EXTENT + CHUNK;
  static __device__ __forceinline__ int at(int row, int col) {
    return TURNED ? col * PITCH + row : row * PITCH + col;
  }
};
using InA = Turned<BM, A_K>;
using InB = Turned<BN, B_K>;
struct Smem {
  struct {
    T A[BK * InA::PITCH];
    T B[BK * InB::PITCH];
  } ring[STAGES];
};
static_assert(sizeof(Smem) == SMEM_BYTES, "simt.py and Smem disagree");
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
  const tile::Tile at = tile::raster<4>(blockIdx.x % (tiles_m * tiles_n), tiles_m, tiles_n);
  const int m0 = at.m * BM, n0 = at.n * OUT_BN;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // Eight lanes, which are served at once, read two chunks of A and four of B: none twice.
  const int row = warp / WARPS_N * WM + (lane / 8 * 2 + lane / 2 % 2) * CHUNK;
  const int col = warp % WARPS_N * OUT_WN + (lane / 4 % 2 * 2 + lane % 2) * CHUNK;

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
  float acc[TM][TN] = {};
  auto multiply = [&](int slot) {
    const T *a_row = &s.ring[slot].A[row], *b_row = &s.ring[slot].B[col];
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      T a[TM], b[TN];
#pragma unroll
      for (int i = 0; i < TM; i += CHUNK)
        tile::copy_chunk(&a[i], &a_row[k * InA::PITCH + i * LANES_M]);
#pragma unroll
      for (int j = 0; j < TN; j += CHUNK)             // of a gate: its columns, then the others
        tile::copy_chunk(&b[j], &b_row[k * InB::PITCH + j / OUT_TN * OUT_BN + j % OUT_TN * LANES_N]);
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int n = 0; n < TN; ++n) {
          const int j = i % 2 ? TN - 1 - n : n;       // there and back: b[j] stays at hand
          acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
        }
    }
  };
  auto next = [](int slot) { return slot + 1 == STAGES ? 0 : slot + 1; };

  for (int step = 0; step < STAGES - 1; ++step) start(step, step);
  ptx::cp_async_wait_group<STAGES - 2>();
  __syncthreads();                                    // the first tile is here
  int slot = 0, fill = STAGES - 1;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    start(step + STAGES - 1, fill);
    multiply(slot);
    ptx::cp_async_wait_group<STAGES - 2>();
    __syncthreads();                                  // the next is here, and this one read
    slot = next(slot), fill = next(fill);
  }

  // --- Epilogue -------------------------------------------------------------------------
  EPILOGUE epilogue = e;
  tile::select(epilogue, batch, 0);
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int at_m = m0 + row + i / CHUNK * LANES_M * CHUNK + i % CHUNK;
    if (at_m >= g.M) continue;
    OUT* d = g.D + batch * g.D_batch + at_m * g.D_row;
#pragma unroll
    for (int j = 0; j < OUT_TN; j += CHUNK) {
      const int at_n = n0 + col + j * LANES_N;
      float values[CHUNK];
#pragma unroll
      for (int c = 0; c < CHUNK; ++c)
        values[c] = at_n + c < out_n
                        ? tile::finished<COLUMNS, SWAPPED>(epilogue, acc[i][j + c],
                                                           acc[i][(j + c + OUT_TN) % TN], at_m,
                                                           at_n + c)
                        : 0;
      if (at_n < out_n)
        tile::store_row<VEC_D>(d + at_n * g.D_col, g.D_col, values, out_n - at_n);
    }
  }
}
