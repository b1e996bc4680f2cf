// hopper_tma_mma: TMA brings whole tiles, an mbarrier counts their bytes, mma.sync multiplies.
//
// Idea      one thread asks for a tile of A and of B by their coordinates; TMA computes addresses,
//           swizzles by 128 bytes and fills with zeros what lies outside. The block waits for an
//           mbarrier that counts bytes; ldmatrix and mma go on as in hgemm_bk64.
// Expect    no instruction for copies, so registers and issue slots are free; and any M, N and K
//           whose rows are multiples of 16 bytes, B stored [K, N] or [N, K]. The products are
//           mma.sync's, and so is the limit: no faster than hgemm_w64.
// Found     as expected, between hgemm_bk64 and hgemm_w64. 4096³ bf16 on an H200: 371.1 µs, 370.3
//           TFLOP/s, 0.56 of torch (2026-11-30T14:51:39Z).
// Next      hopper_wgmma multiplies from shared memory, without fragments.
#include "tile/tma_gemm_args.cuh"
#include "tile/operand.cuh"
#include "tile/tma_fragment.cuh"
#include "ptx/cvt.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/mma.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 128, 128, 64 elements a block and STAGES = 2 come from ladder/rungs.py.
constexpr int WM = 64, WN = 32;                       // elements of C per warp
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;      // per instruction
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
using A = tile::Operand<T, ptx::Major::A_MAJOR, BM, BK>;
using B = tile::Operand<T, ptx::Major::B_MAJOR, BN, BK>;

// --- Smem -------------------------------------------------------------------------------
struct Smem {
  alignas(1024) T A[STAGES][BM * BK];
  alignas(1024) T B[STAGES][BN * BK];
  ptx::mbarrier full[STAGES];
};
static_assert(sizeof(Smem) == SMEM_BYTES, "the rung table and Smem disagree");

extern "C" __global__ __launch_bounds__(THREADS, 1)
void gemm(const __grid_constant__ TmaGemmArgs g) {    // C[M, N] = A[M, K] * B[K, N]
  extern __shared__ __align__(1024) unsigned char raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);

  // --- Who am I -------------------------------------------------------------------------
  const int tiles_n = (g.N + BN - 1) / BN;
  const int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;

  // --- Barriers -------------------------------------------------------------------------
  if (threadIdx.x == 0) {
    for (ptx::mbarrier& bar : s.full) ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  // --- Main loop ------------------------------------------------------------------------
  const int steps = (g.K + BK - 1) / BK;
  float acc[WM / MMA_M][WN / MMA_N][4] = {};
  auto load = [&](int step) {
    const int slot = step % STAGES;
    ptx::mbarrier_arrive_expect_tx(&s.full[slot], A::BYTES + B::BYTES);
    A::load(s.A[slot], g.A_map, &s.full[slot], m0, step * BK);
    B::load(s.B[slot], g.B_map, &s.full[slot], n0, step * BK);
  };
  auto multiply = [&](int slot) {
    for (int k = 0; k < BK; k += MMA_K) {
      ptx::u32 a[WM / MMA_M][4], b[WN / MMA_N][2];
      for (int m = 0; m < WM / MMA_M; ++m)
        tile::a_fragment<A>(a[m], s.A[slot], warp_m + m * MMA_M, k);
      for (int n = 0; n < WN / MMA_N; n += 2)
        tile::b_fragments<B>(b[n], b[n + 1], s.B[slot], warp_n + n * MMA_N, k);
      for (int m = 0; m < WM / MMA_M; ++m)
        for (int n = 0; n < WN / MMA_N; ++n) ptx::mma_m16n8k16<T>(acc[m][n], a[m], b[n]);
    }
  };

  if (threadIdx.x == 0) load(0);
  for (int step = 0; step < steps; ++step) {
    if (threadIdx.x == 0 && step + 1 < steps) load(step + 1);
    ptx::mbarrier_wait_parity(&s.full[step % STAGES], step / STAGES % 2);
    multiply(step % STAGES);
    __syncthreads();                                  // everyone has read the tile
  }

  // --- Epilogue -------------------------------------------------------------------------
  for (int m = 0; m < WM / MMA_M; ++m)
    for (int half = 0; half < 2; ++half)
      for (int n = 0; n < WN / MMA_N; ++n) {
        const int row = m0 + warp_m + m * MMA_M + half * 8 + tile::acc_row(lane);
        const int col = n0 + warp_n + n * MMA_N + tile::acc_col(lane);
        if (row < g.M && col < g.N)
          *reinterpret_cast<ptx::u32*>(&g.C[size_t(row) * g.N + col]) =
              ptx::cvt_rn_x2<T>(acc[m][n][half * 2], acc[m][n][half * 2 + 1]);
      }
}
