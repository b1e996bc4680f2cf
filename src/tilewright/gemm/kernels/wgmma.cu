// wgmma: any product whose operands TMA reaches, on Hopper: hopper_best as a kernel for all shapes.
//
// Tile      BM x BN of D for a block, BK of K a step, STAGES in the ring. CONSUMERS warpgroups
//           multiply: TURNS = 1, they share a tile's rows, and a 16-bit tile that TMA stores waits
//           for that in registers, rounded, until the next tile's products run; TURNS = 2, they take
//           turns, each on a tile of its own, so that one's epilogue runs beside the other's
//           products.
// Epilogue  EPILOGUE, a functor on fp32 sums before the one rounding. GATED: half of B's tile are
//           columns of a gate and half what they gate; both of a pair lie in one thread.
// Store     by TMA where WGMMA_ARGS_OUT_MAP is defined, else element by element at any strides.
// K         in `splits` ranges of whole steps, each with a matrix of its own in `out`.
#include "tile/wgmma_args.cuh"
#include "tile/epilogue_call.cuh"
#include "tile/operand_batch.cuh"
#include "tile/ring_skip.cuh"
#include "tile/serpentine.cuh"
#include "tile/wgmma_finish.cuh"
#include "tile/wgmma_packed.cuh"
#include "tile/wgmma_stage.cuh"
#include "tile/wgmma_stage_fp32.cuh"
#include "tile/wgmma_store_any.cuh"
#include "ptx/cluster.cuh"
#include "ptx/elect.cuh"
#include "ptx/fence_proxy.cuh"
#include "ptx/griddepcontrol.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/mbarrier_cluster.cuh"
#include "ptx/mbarrier_quiet.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/setmaxnreg.cuh"
#if BN == 256
#include "ptx/wgmma_m64n256k16.cuh"
#elif BN == 192
#include "ptx/wgmma_m64n192k16.cuh"
#elif BN == 128
#include "ptx/wgmma_m64n128k16.cuh"
#else
#include "ptx/wgmma_m64n64k16.cuh"
#endif

// --- Tile -------------------------------------------------------------------------------
constexpr int WM = TURNS > 1 ? BM : BM / CONSUMERS;   // rows of a consumer
constexpr int MMA_M = 64, MMA_K = 16, ROWS = WM / MMA_M;
constexpr int THREADS = 128 * (1 + CONSUMERS), CLUSTER = CLUSTER_M * CLUSTER_N;
constexpr int WIDTH = GATED ? BN / 2 : BN;            // columns of D
#ifdef WGMMA_ARGS_OUT_MAP
constexpr bool LATER = sizeof(OUT) == 2 && TURNS == 1;  // a tile is stored beside the next one's
#else
constexpr bool LATER = false;                         // for its addresses there are no registers
#endif
constexpr int PANEL = 128 / sizeof(OUT);              // columns of D that are stored at a time
constexpr int PANELS = WIDTH / PANEL, STORES = ROWS * PANELS, BOXES = 2;
constexpr int QUIET_NS = 20000;                       // that the producer may sleep at a time
static_assert(CLUSTER <= 2 && (TURNS == 1 || TURNS == CONSUMERS) && WIDTH % PANEL == 0);
using A = tile::Operand<T, ptx::Major::A_MAJOR, BM, BK>;
using B = tile::Operand<T, ptx::Major::B_MAJOR, BN, BK>;
using ABoxes = tile::Boxes<A, BM, CLUSTER_N, false>;
using BBoxes = tile::Boxes<B, BN, CLUSTER_M, GATED>;

// --- Smem -------------------------------------------------------------------------------
struct Smem {
  alignas(1024) T A[STAGES][BM * BK];
  alignas(1024) T B[STAGES][BN * BK];
  alignas(1024) OUT out[CONSUMERS][BOXES][MMA_M * PANEL];
  ptx::mbarrier full[STAGES], empty[STAGES];
};
static_assert(sizeof(Smem) == SMEM_BYTES, "wgmma.py and Smem disagree");

// A tile: where it begins in D and in K, and of which matrix and split.
struct Work { int m, n, matrix, split, first; };

extern "C" __global__ __launch_bounds__(THREADS, 1)
void gemm(const __grid_constant__ WgmmaArgs g, const __grid_constant__ EPILOGUE e) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);

  // --- Who am I -------------------------------------------------------------------------
  const int tiles_m = (g.M + CLUSTER_M * BM - 1) / (CLUSTER_M * BM);  // in clusters
  const int tiles_n = (g.N + CLUSTER_N * WIDTH - 1) / (CLUSTER_N * WIDTH);
  const int tiles = tiles_m * tiles_n, works = tiles * g.batch * g.splits;
  const int first = blockIdx.x / CLUSTER, stride = gridDim.x / CLUSTER;
  const int rank = ptx::cluster_ctarank();
  const int lane = threadIdx.x % 32, warp = __shfl_sync(~0u, int(threadIdx.x / 32), 0);
  const int consumer = __shfl_sync(~0u, int(threadIdx.x / 128), 0) - 1;  // -1: the producer
  const int steps = (g.K + BK - 1) / BK;
  auto work = [&](int id) {
    const int of = id / tiles, split = of / g.batch;
    const tile::Tile at = tile::serpentine<8>(id - of * tiles, tiles_m, tiles_n);
    return Work{(at.m * CLUSTER_M + rank % CLUSTER_M) * BM,
                (at.n * CLUSTER_N + rank % CLUSTER_N) * WIDTH, of - split * g.batch, split,
                split * g.split_steps};
  };
  auto steps_of = [&](int id) {                       // without a division in most cases
    const int split = g.splits > 1 ? id / (tiles * g.batch) : 0;
    return min(g.split_steps, steps - split * g.split_steps);
  };

  // --- Barriers -------------------------------------------------------------------------
  ptx::griddepcontrol_launch_dependents();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(g.A_map);
    ptx::prefetch_tensormap(g.B_map);
    for (ptx::mbarrier& bar : s.full) ptx::mbarrier_init(&bar, 1);
    for (ptx::mbarrier& bar : s.empty) ptx::mbarrier_init(&bar, 4 * CONSUMERS / TURNS * CLUSTER);
    ptx::fence_mbarrier_init();
  }
  ptx::barrier_cluster_arrive_release();              // no block signals one that is not ready
  ptx::barrier_cluster_wait_acquire();
  ptx::griddepcontrol_wait();                         // what came before has ended

  // --- Main loop ------------------------------------------------------------------------
  tile::SkippingRing<STAGES> at;
  if (consumer < 0) {
    if constexpr (CONSUMERS > 1) ptx::setmaxnreg_dec<40>();
    if (warp == 0 && ptx::elect_sync())
      for (int id = first; id < works; id += stride) {
        const Work to = work(id);
        const int count = steps_of(id);
        for (int step = 0; step < count; ++step, at.advance()) {
          const int k = (to.first + step) * BK;
          ptx::mbarrier* full = &s.full[at.slot];
          ptx::mbarrier_wait_parity(&s.empty[at.slot], at.phase ^ 1, QUIET_NS);
          ptx::mbarrier_arrive_expect_tx(full, A::BYTES + B::BYTES);
          ABoxes::load(s.A[at.slot], g.A_map, full, to.m, 0, k, to.matrix * g.A_step,
                       rank % CLUSTER_N, (1 << CLUSTER) - 1);
          BBoxes::load(s.B[at.slot], g.B_map, full, to.n, g.N + to.n, k, to.matrix * g.B_step,
                       rank % CLUSTER_M, (1 << CLUSTER) - 1);
        }
      }
    __syncwarp();
    ptx::barrier_cluster_arrive_relaxed();
    return ptx::barrier_cluster_wait_acquire();       // nobody signals a block that has left
  }
  if constexpr (CONSUMERS > 1) ptx::setmaxnreg_inc<232>();
  const bool leader = warp % 4 == 0 && ptx::elect_sync();  // of a consumer, for its stores
  const int mine = TURNS > 1 ? 0 : consumer * WM;     // my rows of the tile
  float acc[ROWS][BN / 2];
  ptx::u32 done[ROWS][LATER ? WIDTH / 4 : 1];         // a finished tile, to be stored
  Work at_d{};                                        // its place
  int before = 0;                                     // the slot of the step before
  bool waits = false;                                 // there is one
  auto release = [&](int slot) {                      // a wait of wgmma is a warp's own
    if (lane < CLUSTER) ptx::mbarrier_arrive_cluster(ptx::mapa(&s.empty[slot], lane));
  };
  auto multiply = [&](int step, auto meanwhile) {
    ptx::mbarrier_wait_parity(&s.full[at.slot], at.phase);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK; k += MMA_K)
#pragma unroll
      for (int i = 0; i < ROWS; ++i)
        ptx::wgmma_mma_async(acc[i], A::at(s.A[at.slot], mine + i * MMA_M, k),
                             B::at(s.B[at.slot], 0, k), k > 0 || step > 0);
    ptx::wgmma_commit_group();
    meanwhile();
    ptx::wgmma_wait_group<1>();                       // the products of the step before are there
    if (step > 0) release(before);
    before = at.slot;
    at.advance();
  };
  auto stage = [&](auto* box, int n) {
    if constexpr (sizeof *box == 4) tile::stage_fp32(box, acc[n / PANELS], n % PANELS);
    else if constexpr (LATER) tile::stage(box, done[n / PANELS], n % PANELS);
    else tile::stage(box, acc[n / PANELS], n % PANELS);
  };
  auto pair = [&](auto* out, int n, int i) {          // i of panel n
    const int at = n % PANELS * PANEL / 4 + i, row = n / PANELS;
    if constexpr (sizeof *out == 4) {
      return float2{acc[row][2 * at], acc[row][2 * at + 1]};
    } else {
      const ptx::u32 two = ptx::cvt_rn_x2<OUT>(acc[row][2 * at], acc[row][2 * at + 1]);
      return ushort2{(unsigned short)two, (unsigned short)(two >> 16)};
    }
  };
  auto store = [&](int n) {                           // of a row of panels, and of those below it
    const int row = at_d.m + mine + n / PANELS * MMA_M, col = n % PANELS * PANEL;
#ifdef WGMMA_ARGS_OUT_MAP
    OUT* box = s.out[consumer][n % BOXES];
    if (leader && n == 0) ptx::cp_async_bulk_wait_group_read<0>();  // the last tile's, long ago
    if (leader && n > 0) ptx::cp_async_bulk_wait_group_read<BOXES - 1>();
    ptx::bar_sync(1 + consumer, 128);                 // the box has been read
    stage(box, n);
    ptx::fence_proxy_async_shared_cta();
    ptx::bar_sync(1 + consumer, 128);                 // everyone's part is in it
    if (leader) {
      ptx::cp_async_bulk_tensor_3d_store(g.out_map, at_d.n + col, row,
                                         at_d.split * g.batch + at_d.matrix, box);
      ptx::cp_async_bulk_commit_group();
    }
#else
    const long long matrix = at_d.split * (long long)g.batch + at_d.matrix;
    const tile::Placed<OUT> to{g.out + matrix * g.out_matrix, g.out_row, g.out_col};
    tile::store_pairs<OUT_PAIRS, PANEL>(to, row, at_d.n, col, g.M, g.N,
                                        [&](int i) { return pair(g.out, n, i); });
#endif
  };
  auto store_all = [&] {
#pragma unroll
    for (int n = 0; n < STORES; ++n) store(n);
  };
  for (int turn = 0, id = first; id < works; id += stride, turn ^= TURNS - 1) {
    const int count = steps_of(id);
    if (TURNS > 1 && turn != consumer) {              // the other's
      at.skip(count);
      continue;
    }
    if (TURNS > 1 && id != first) ptx::bar_sync(1 + CONSUMERS + turn, 256);  // it has issued all
    int step = 0;
    if (LATER && waits && count >= STORES) {
#pragma unroll
      for (; step < STORES; ++step) multiply(step, [&] { store(step); });
      waits = false;
    }
    for (; step < count; ++step) multiply(step, [] {});
    if (TURNS > 1 && id + stride < works) ptx::bar_arrive(2 + CONSUMERS - turn, 256);
    const Work now = work(id);                        // while the last products are on their way
    ptx::wgmma_wait_group<0>();
    release(before);

    // --- Epilogue -----------------------------------------------------------------------
#pragma unroll
    for (int i = 0; i < ROWS; ++i) ptx::wgmma_fence_operands(acc[i]);
    if (LATER && waits) store_all();                  // K was too short for it
    at_d = now;
    EPILOGUE epilogue = e;
    tile::select(epilogue, now.matrix, 0);
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      const int row = now.m + mine + i * MMA_M;
      tile::finish<1 + GATED, SWAPPED>(acc[i], row, now.n, g.M, g.N, epilogue);
      if constexpr (LATER) tile::round_pairs<OUT>(done[i], acc[i]);
    }
    waits = true;
    if (!LATER) store_all();
  }
  if (LATER && waits) store_all();
  if (leader) ptx::cp_async_bulk_wait_group<0>();     // shared memory is read until then
  ptx::barrier_cluster_arrive_relaxed();
  ptx::barrier_cluster_wait_acquire();
}
