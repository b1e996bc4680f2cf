// hopper_wgmma: four warps multiply 64 rows at once, straight from shared memory.
//
// Idea      wgmma takes both operands by descriptors of shared memory: no ldmatrix, no fragments,
//           and products of 64x128x16 that run while the warps do something else, here nothing:
//           one buffer, filled by TMA, multiplied by two warpgroups, waited for by everyone.
// Expect    wgmma at twice the rate of mma.sync, but never while a tile is loading: load and
//           multiply take turns, at about a third of the peak.
// Found     more than expected: two blocks fit on a multiprocessor, and one loads while the other
//           multiplies. 4096³ bf16 on an H200: 315.1 µs, 436.2 TFLOP/s, 0.66 of torch
//           (2026-11-30T14:51:39Z); more with B stored [N, K].
// Next      hopper_ring loads the next tiles meanwhile.
#include "tile/tma_gemm_args.cuh"
#include "tile/operand.cuh"
#include "tile/wgmma_store.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/wgmma_m64n128k16.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 128, 128, 64 elements a block and STAGES = 1 come from ladder/rungs.py.
constexpr int WM = 64, WGMMA_K = 16;                  // rows of C a warpgroup; BN columns
constexpr int THREADS = 128 * (BM / WM);
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
  const int group_m = threadIdx.x / 128 * WM;

  // --- Barriers -------------------------------------------------------------------------
  if (threadIdx.x == 0) {
    for (ptx::mbarrier& bar : s.full) ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  // --- Main loop ------------------------------------------------------------------------
  const int steps = (g.K + BK - 1) / BK;
  float acc[BN / 2];
  auto load = [&](int step) {
    const int slot = step % STAGES;
    ptx::mbarrier_arrive_expect_tx(&s.full[slot], A::BYTES + B::BYTES);
    A::load(s.A[slot], g.A_map, &s.full[slot], m0, step * BK);
    B::load(s.B[slot], g.B_map, &s.full[slot], n0, step * BK);
  };
  auto multiply = [&](int step) {
    const int slot = step % STAGES;
    ptx::wgmma_fence();
    for (int k = 0; k < BK; k += WGMMA_K)
      ptx::wgmma_mma_async(acc, A::at(s.A[slot], group_m, k), B::at(s.B[slot], 0, k),
                           k > 0 || step > 0);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
  };

  for (int step = 0; step < steps; ++step) {
    if (threadIdx.x == 0) load(step);
    ptx::mbarrier_wait_parity(&s.full[0], step % 2);
    multiply(step);
    __syncthreads();                                  // everyone has read the tile
  }

  // --- Epilogue -------------------------------------------------------------------------
  ptx::wgmma_fence_operands(acc);
  tile::store(g.C, m0 + group_m, n0, g.M, g.N, acc);
}
