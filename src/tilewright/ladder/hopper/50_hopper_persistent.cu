// hopper_persistent: a block a multiprocessor, which works off tile after tile.
//
// Idea      the producer goes on to the next tile while the consumers store this one: the ring and
//           its phases run on across tiles. Tiles follow each other in panels of eight columns.
// Expect    the start of a tile is hidden, all but the first, and what 132 blocks read at a time
//           lies in L2 more often.
// Found     as expected, in 2 % less time. 4096³ bf16 on an H200: 230.6 µs, 596.0 TFLOP/s, 0.90 of
//           torch (2026-11-30T14:51:39Z).
// Next      hopper_cluster reads each tile of B once for two blocks.
#include "tile/tma_gemm_args.cuh"
#include "tile/operand.cuh"
#include "tile/raster.cuh"
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
  const int tiles_m = (g.M + BM - 1) / BM, tiles_n = (g.N + BN - 1) / BN;
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
  auto load = [&](tile::Tile to, int step) {
    ptx::mbarrier_wait_parity(&s.empty[at.slot], at.phase ^ 1);
    ptx::mbarrier_arrive_expect_tx(&s.full[at.slot], A::BYTES + B::BYTES);
    A::load(s.A[at.slot], g.A_map, &s.full[at.slot], to.m * BM, step * BK);
    B::load(s.B[at.slot], g.B_map, &s.full[at.slot], to.n * BN, step * BK);
  };
  if (consumer < 0) {
    ptx::setmaxnreg_dec<40>();
    if (warp == 0 && ptx::elect_sync())
      for (int id = blockIdx.x; id < tiles_m * tiles_n; id += gridDim.x)
        for (int step = 0; step < steps; ++step, at.advance())
          load(tile::raster<8>(id, tiles_m, tiles_n), step);
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
  for (int id = blockIdx.x; id < tiles_m * tiles_n; id += gridDim.x) {
    int before = 0;                                   // the slot of the step before
    for (int step = 0; step < steps; ++step, at.advance()) {
      multiply(step);
      ptx::wgmma_wait_group<1>();                     // the products of the step before are there
      if (step > 0) release(before);
      before = at.slot;
    }
    ptx::wgmma_wait_group<0>();
    release(before);

    // --- Epilogue -----------------------------------------------------------------------
    ptx::wgmma_fence_operands(acc);
    const tile::Tile to = tile::raster<8>(id, tiles_m, tiles_n);
    tile::store(g.C, to.m * BM + consumer * WM, to.n * BN, g.M, g.N, acc);
  }
}
