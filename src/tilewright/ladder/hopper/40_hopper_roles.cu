// hopper_roles: one warpgroup loads, two multiply; barriers tell them of each other.
//
// Idea      a producer waits for empty buffers and fills them, consumers wait for full ones and
//           release what they have read: nobody waits for the whole block. The producer hands its
//           registers over, so that 64x256 sums a consumer fit; one group of products is left in
//           flight while the next is issued.
// Expect    wgmma of 256 columns reads 80 bytes of shared memory a clock instead of 96, and the
//           tensor pipe always has a group waiting.
// Found     the largest step of the ladder. 4096³ bf16 on an H200: 235.0 µs, 584.9 TFLOP/s, 0.88 of
//           torch (2026-11-30T14:51:39Z). The GPU is at its power cap from here on.
// Next      hopper_persistent keeps blocks for many tiles.
#include "tile/tma_gemm_args.cuh"
#include "tile/operand.cuh"
#include "tile/ring.cuh"
#include "tile/wgmma_store.cuh"
#include "ptx/elect.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/wgmma_m64n256k16.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 128, 256, 64 elements a block and STAGES = 4 come from ladder/rungs.py.
constexpr int WM = 64, WGMMA_K = 16;                  // rows of C a consumer; BN columns
constexpr int CONSUMERS = BM / WM, THREADS = 128 * (1 + CONSUMERS);
using A = tile::Operand<T, ptx::Major::A_MAJOR, BM, BK>;
using B = tile::Operand<T, ptx::Major::B_MAJOR, BN, BK>;

// --- Smem -------------------------------------------------------------------------------
struct Smem {
  alignas(1024) T A[STAGES][BM * BK];
  alignas(1024) T B[STAGES][BN * BK];
  ptx::mbarrier full[STAGES], empty[STAGES];
};
static_assert(sizeof(Smem) == SMEM_BYTES, "the rung table and Smem disagree");

extern "C" __global__ __launch_bounds__(THREADS, 1)
void gemm(const __grid_constant__ TmaGemmArgs g) {    // C[M, N] = A[M, K] * B[K, N]
  extern __shared__ __align__(1024) unsigned char raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);

  // --- Who am I -------------------------------------------------------------------------
  const int tiles_n = (g.N + BN - 1) / BN;
  const int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int consumer = int(threadIdx.x / 128) - 1;    // -1: the producer

  // --- Barriers -------------------------------------------------------------------------
  if (threadIdx.x == 0) {
    for (ptx::mbarrier& bar : s.full) ptx::mbarrier_init(&bar, 1);
    for (ptx::mbarrier& bar : s.empty) ptx::mbarrier_init(&bar, 4 * CONSUMERS);  // its warps
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  // --- Main loop ------------------------------------------------------------------------
  const int steps = (g.K + BK - 1) / BK;
  tile::Ring<STAGES> at;
  auto load = [&](int step) {
    ptx::mbarrier_wait_parity(&s.empty[at.slot], at.phase ^ 1);
    ptx::mbarrier_arrive_expect_tx(&s.full[at.slot], A::BYTES + B::BYTES);
    A::load(s.A[at.slot], g.A_map, &s.full[at.slot], m0, step * BK);
    B::load(s.B[at.slot], g.B_map, &s.full[at.slot], n0, step * BK);
  };
  if (consumer < 0) {
    ptx::setmaxnreg_dec<40>();
    if (warp == 0 && ptx::elect_sync())
      for (int step = 0; step < steps; ++step, at.advance()) load(step);
    return;
  }
  ptx::setmaxnreg_inc<232>();
  float acc[BN / 2];
  auto multiply = [&](int step) {
    ptx::mbarrier_wait_parity(&s.full[at.slot], at.phase);
    ptx::wgmma_fence();
    for (int k = 0; k < BK; k += WGMMA_K)
      ptx::wgmma_mma_async(acc, A::at(s.A[at.slot], consumer * WM, k), B::at(s.B[at.slot], 0, k),
                           k > 0 || step > 0);
    ptx::wgmma_commit_group();
  };
  auto release = [&](int slot) {                      // a wait of wgmma is a warp's own
    if (lane == 0) ptx::mbarrier_arrive(&s.empty[slot]);
  };
  int before = 0;                                     // the slot of the step before
  for (int step = 0; step < steps; ++step, at.advance()) {
    multiply(step);
    ptx::wgmma_wait_group<1>();                       // the products of the step before are there
    if (step > 0) release(before);
    before = at.slot;
  }
  ptx::wgmma_wait_group<0>();

  // --- Epilogue -------------------------------------------------------------------------
  ptx::wgmma_fence_operands(acc);
  tile::store(g.C, m0 + consumer * WM, n0, g.M, g.N, acc);
}
