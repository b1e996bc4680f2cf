// hopper_order: panels walked up and down.
//
// Idea      where a panel of tiles ends, the next one begins with the same rows of A, which still
//           lie in L2: every second panel is walked upwards.
// Expect    some MiB less from DRAM where C has several panels, at 8192³; at 4096³ there are two.
// Found     no gain: the time of hopper_store at 8192³, within 0.2 %. 4096³ bf16 on an H200:
//           216.3 µs, 635.4 TFLOP/s, 0.97 of torch (2026-11-30T14:51:39Z); 1.02 at 8192³.
// Next      hopper_best stores a tile beside the next one's products.
#include "tile/tma_gemm_args.cuh"
#include "tile/epilogue.cuh"
#include "tile/operand_multicast.cuh"
#include "tile/ring.cuh"
#include "tile/serpentine.cuh"
#include "tile/wgmma_stage.cuh"
#include "ptx/cluster.cuh"
#include "ptx/elect.cuh"
#include "ptx/fence_proxy.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/mbarrier_cluster.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/tma_store.cuh"
#include "ptx/wgmma_m64n256k16.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 128, 256, 64 elements a block and STAGES = 4 come from ladder/rungs.py, and
// CLUSTER_M = 2: the blocks of a cluster, on tiles below each other.
constexpr int WM = 64, WGMMA_K = 16;                  // rows of C a consumer; BN columns
constexpr int BOXES = 2;                              // of 64 columns of C, for each consumer
constexpr int CONSUMERS = BM / WM, THREADS = 128 * (1 + CONSUMERS);
using A = tile::Operand<T, ptx::Major::A_MAJOR, BM, BK>;
using B = tile::Operand<T, ptx::Major::B_MAJOR, BN, BK>;

// --- Smem -------------------------------------------------------------------------------
struct Smem {
  alignas(1024) T A[STAGES][BM * BK];
  alignas(1024) T B[STAGES][BN * BK];
  alignas(1024) T C[CONSUMERS][BOXES][WM * tile::PANEL];
  ptx::mbarrier full[STAGES], empty[STAGES];
};
static_assert(sizeof(Smem) == SMEM_BYTES, "the rung table and Smem disagree");

extern "C" __global__ __launch_bounds__(THREADS, 1)
void gemm(const __grid_constant__ TmaGemmArgs g) {    // C[M, N] = A[M, K] * B[K, N]
  extern __shared__ __align__(1024) unsigned char raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);

  // --- Who am I -------------------------------------------------------------------------
  const int pairs_m = (g.M + CLUSTER_M * BM - 1) / (CLUSTER_M * BM), tiles_n = (g.N + BN - 1) / BN;
  const int pair = blockIdx.x / CLUSTER_M, pairs = gridDim.x / CLUSTER_M;  // of tiles, and ours
  const int rank = ptx::cluster_ctarank();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int consumer = int(threadIdx.x / 128) - 1;    // -1: the producer

  // --- Barriers -------------------------------------------------------------------------
  if (threadIdx.x == 0) {
    for (ptx::mbarrier& bar : s.full) ptx::mbarrier_init(&bar, 1);
    for (ptx::mbarrier& bar : s.empty) ptx::mbarrier_init(&bar, 4 * CONSUMERS * CLUSTER_M);
    ptx::fence_mbarrier_init();
  }
  ptx::barrier_cluster_arrive_release();              // no block signals one that is not ready
  ptx::barrier_cluster_wait_acquire();

  // --- Main loop ------------------------------------------------------------------------
  const int steps = (g.K + BK - 1) / BK;
  tile::Ring<STAGES> at;
  auto load = [&](tile::Tile to, int step) {
    ptx::mbarrier_wait_parity(&s.empty[at.slot], at.phase ^ 1);
    ptx::mbarrier_arrive_expect_tx(&s.full[at.slot], A::BYTES + B::BYTES);
    const int m0 = (to.m * CLUSTER_M + rank) * BM, n0 = to.n * BN;
    A::load(s.A[at.slot], g.A_map, &s.full[at.slot], m0, step * BK);
    tile::load_multicast<B, CLUSTER_M>(s.B[at.slot], g.B_map, &s.full[at.slot], n0, step * BK, rank,
                                       (1 << CLUSTER_M) - 1);
  };
  if (consumer < 0) {
    ptx::setmaxnreg_dec<40>();
    if (warp == 0 && ptx::elect_sync())
      for (int id = pair; id < pairs_m * tiles_n; id += pairs)
        for (int step = 0; step < steps; ++step, at.advance())
          load(tile::serpentine<8>(id, pairs_m, tiles_n), step);
    __syncwarp();
    ptx::barrier_cluster_arrive_relaxed();
    return ptx::barrier_cluster_wait_acquire();       // nobody signals a block that has left
  }
  ptx::setmaxnreg_inc<232>();
  const bool leader = warp % 4 == 0 && ptx::elect_sync();  // of a consumer, for its stores
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
    if (lane < CLUSTER_M) ptx::mbarrier_arrive_cluster(ptx::mapa(&s.empty[slot], lane));
  };
  for (int id = pair; id < pairs_m * tiles_n; id += pairs) {
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
    const tile::Tile to = tile::serpentine<8>(id, pairs_m, tiles_n);
    const int m0 = (to.m * CLUSTER_M + rank) * BM + consumer * WM, n0 = to.n * BN;
    tile::apply(acc, m0, n0, g.M, g.N, tile::Plain{});
#pragma unroll
    for (int n = 0; n < BN / tile::PANEL; ++n) {
      T* box = s.C[consumer][n % BOXES];
      if (leader) ptx::cp_async_bulk_wait_group_read<BOXES - 1>();
      ptx::bar_sync(1 + consumer, 128);               // the box has been read
      tile::stage(box, acc, n);
      ptx::fence_proxy_async_shared_cta();
      ptx::bar_sync(1 + consumer, 128);               // everyone's part is in it
      if (leader) {
        ptx::cp_async_bulk_tensor_2d_store(g.C_map, n0 + n * tile::PANEL, m0, box);
        ptx::cp_async_bulk_commit_group();
      }
    }
  }
  if (leader) ptx::cp_async_bulk_wait_group<0>();     // shared memory is read until then
  ptx::barrier_cluster_arrive_relaxed();
  ptx::barrier_cluster_wait_acquire();
}
