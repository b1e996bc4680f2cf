// hopper_best: a tile's sums wait in registers, and are stored beside the next tile's products.
//
// Idea      inside a tile hopper_order's tensor cores never wait, but while it is stored they do.
//           Rounded to T and in pairs, the sums need half as many registers: there is room for a
//           finished tile next to the one at work. Each of the next tile's first steps stores one
//           panel while its products run. Beside that: as few blocks as end no later, as an idle
//           multiprocessor's share of the power goes to the others; each warp's role in one
//           register for all lanes; a producer that sleeps; and the stream's next kernel begins
//           while this one ends, and sets up its barriers before it waits for it.
// Expect    3 % less time: what a tile's store takes.
// Found     as expected at 8192³, less at 4096³, where the last tile's store stays. 4096³ bf16 on
//           an H200: 205.1 µs, 670.3 TFLOP/s, 1.01 of torch (2026-11-30T17:08:13Z), and also faster
//           than the best of cuBLASLt's algorithms; 1.04 at 8192³. A step issues 50 to 53 machine
//           instructions instead of 68 to 70 (NVRTC 13.0 and 13.5). All run at the power cap.
//           Tried, in shuffled rounds that agree within 2 % (measurements/tried): 132 blocks 1 to 3
//           % slower; no cluster up to 3 %; clusters of 4, of which too few fit, 40 %; panels of 4
//           or 16 tiles 1 to 3 %; one loop for the steps with and without a store up to 3 %. Within
//           the noise: evict-first for C, the last tile staged in A's place, consumers set apart by
//           250 or 500 ns, an L2 promotion of 128 bytes, a producer that spins.
// Next      the end of this ladder.
#include "tile/tma_gemm_args.cuh"
#include "tile/epilogue.cuh"
#include "tile/operand_multicast.cuh"
#include "tile/ring.cuh"
#include "tile/serpentine.cuh"
#include "tile/wgmma_packed.cuh"
#include "ptx/cluster.cuh"
#include "ptx/elect.cuh"
#include "ptx/fence_proxy.cuh"
#include "ptx/griddepcontrol.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/mbarrier_cluster.cuh"
#include "ptx/mbarrier_quiet.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/tma_store.cuh"
#include "ptx/wgmma_m64n256k16.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 128, 256, 64 elements a block and STAGES = 4 come from ladder/rungs.py, and
// CLUSTER_M = 2: the blocks of a cluster, on tiles below each other.
constexpr int WM = 64, WGMMA_K = 16;                  // rows of C a consumer; BN columns
constexpr int QUIET_NS = 20000;                       // that the producer may sleep at a time
constexpr int PANELS = BN / tile::PANEL, BOXES = 2;   // of C; and room for so many a consumer
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
  const int lane = threadIdx.x % 32, warp = __shfl_sync(~0u, int(threadIdx.x / 32), 0);
  const int consumer = __shfl_sync(~0u, int(threadIdx.x / 128), 0) - 1;  // -1: the producer

  // --- Barriers -------------------------------------------------------------------------
  ptx::griddepcontrol_launch_dependents();
  if (threadIdx.x == 0) {
    for (const TensorMap* map : {&g.A_map, &g.B_map, &g.C_map}) ptx::prefetch_tensormap(*map);
    for (ptx::mbarrier& bar : s.full) ptx::mbarrier_init(&bar, 1);
    for (ptx::mbarrier& bar : s.empty) ptx::mbarrier_init(&bar, 4 * CONSUMERS * CLUSTER_M);
    ptx::fence_mbarrier_init();
  }
  ptx::barrier_cluster_arrive_release();              // no block signals one that is not ready
  ptx::barrier_cluster_wait_acquire();
  ptx::griddepcontrol_wait();                         // what came before has ended

  // --- Main loop ------------------------------------------------------------------------
  const int steps = (g.K + BK - 1) / BK;
  tile::Ring<STAGES> at;
  auto load = [&](tile::Tile to, int step) {
    ptx::mbarrier_wait_parity(&s.empty[at.slot], at.phase ^ 1, QUIET_NS);
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
  ptx::u32 done[BN / 4];                              // a finished tile, to be stored
  int m0 = 0, n0 = 0, before = 0;                     // its place; the slot of the step before
  bool waits = false;                                 // there is one
  auto release = [&](int slot) {                      // a wait of wgmma is a warp's own
    if (lane < CLUSTER_M) ptx::mbarrier_arrive_cluster(ptx::mapa(&s.empty[slot], lane));
  };
  auto multiply = [&](int step, auto meanwhile) {
    ptx::mbarrier_wait_parity(&s.full[at.slot], at.phase);
    ptx::wgmma_fence();
    for (int k = 0; k < BK; k += WGMMA_K)
      ptx::wgmma_mma_async(acc, A::at(s.A[at.slot], consumer * WM, k), B::at(s.B[at.slot], 0, k),
                           k > 0 || step > 0);
    ptx::wgmma_commit_group();
    meanwhile();
    ptx::wgmma_wait_group<1>();                       // the products of the step before are there
    if (step > 0) release(before);
    before = at.slot;
    at.advance();
  };
  auto store = [&](int n) {                           // panel n, 64 columns
    T* box = s.C[consumer][n % BOXES];
    if (leader) ptx::cp_async_bulk_wait_group_read<BOXES - 1>();
    ptx::bar_sync(1 + consumer, 128);                 // the box has been read
    tile::stage(box, done, n);
    ptx::fence_proxy_async_shared_cta();
    ptx::bar_sync(1 + consumer, 128);                 // everyone's part is in it
    if (leader) {
      ptx::cp_async_bulk_tensor_2d_store(g.C_map, n0 + n * tile::PANEL, m0, box);
      ptx::cp_async_bulk_commit_group();
    }
  };
  auto store_all = [&] {
#pragma unroll
    for (int n = 0; n < PANELS; ++n) store(n);
  };
  for (int id = pair; id < pairs_m * tiles_n; id += pairs) {
    int step = 0;
    if (waits && steps >= PANELS) {
#pragma unroll
      for (; step < PANELS; ++step) multiply(step, [&] { store(step); });
      waits = false;
    }
    for (; step < steps; ++step) multiply(step, [] {});
    ptx::wgmma_wait_group<0>();
    release(before);

    // --- Epilogue -----------------------------------------------------------------------
    ptx::wgmma_fence_operands(acc);
    if (waits) store_all();                           // K was too short for it
    const tile::Tile to = tile::serpentine<8>(id, pairs_m, tiles_n);
    m0 = (to.m * CLUSTER_M + rank) * BM + consumer * WM, n0 = to.n * BN, waits = true;
    tile::apply(acc, m0, n0, g.M, g.N, tile::Plain{});
    tile::pack<T>(done, acc);
  }
  if (waits) store_all();
  if (leader) ptx::cp_async_bulk_wait_group<0>();     // shared memory is read until then
  ptx::barrier_cluster_arrive_relaxed();
  ptx::barrier_cluster_wait_acquire();
}
