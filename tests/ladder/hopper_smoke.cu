// What the device headers for Hopper are for, in one kernel: TMA loads, a ring of full and empty
// barriers, a producer and two consumers, wgmma, an epilogue, stmatrix and a TMA store.
#include "ptx/elect.cuh"
#include "ptx/fence_proxy.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/tma_store.cuh"
#include "ptx/wgmma_m64n256k16.cuh"
#include "tile/epilogue.cuh"
#include "tile/operand.cuh"
#include "tile/raster.cuh"
#include "tile/ring.cuh"
#include "tile/tma_gemm_args.cuh"
#include "tile/wgmma_stage.cuh"

using A = tile::Operand<T, ptx::Major::A_MAJOR, BM, BK>;
using B = tile::Operand<T, ptx::Major::B_MAJOR, BN, BK>;
constexpr int CONSUMERS = BM / 64, THREADS = 128 * (1 + CONSUMERS);

struct Smem {
  alignas(1024) T A[STAGES][BM * BK];
  alignas(1024) T B[STAGES][BN * BK];
  alignas(1024) T C[CONSUMERS][64 * 64];
  ptx::mbarrier full[STAGES], empty[STAGES];
};
static_assert(sizeof(Smem) == SMEM_BYTES, "the rung table and Smem disagree");

extern "C" __global__ __launch_bounds__(THREADS, 1)
void gemm(const __grid_constant__ TmaGemmArgs g) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);
  const int tiles_m = (g.M + BM - 1) / BM, tiles_n = (g.N + BN - 1) / BN;
  const int steps = (g.K + BK - 1) / BK, group = int(threadIdx.x / 128) - 1;

  if (threadIdx.x == 0) {
    for (ptx::mbarrier& bar : s.full) ptx::mbarrier_init(&bar, 1);
    for (ptx::mbarrier& bar : s.empty) ptx::mbarrier_init(&bar, CONSUMERS);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  tile::Ring<STAGES> at;
  if (group < 0) {
    ptx::setmaxnreg_dec<24>();
    if (threadIdx.x / 32 == 0 && ptx::elect_sync())
      for (int id = blockIdx.x; id < tiles_m * tiles_n; id += gridDim.x) {
        const tile::Tile to = tile::raster<8>(id, tiles_m, tiles_n);
        for (int step = 0; step < steps; ++step, at.advance()) {
          ptx::mbarrier_wait_parity(&s.empty[at.slot], at.phase ^ 1);
          ptx::mbarrier_arrive_expect_tx(&s.full[at.slot], A::BYTES + B::BYTES);
          A::load(s.A[at.slot], g.A_map, &s.full[at.slot], to.m * BM, step * BK);
          B::load(s.B[at.slot], g.B_map, &s.full[at.slot], to.n * BN, step * BK);
        }
      }
    return;
  }
  ptx::setmaxnreg_inc<240>();
  const bool first = threadIdx.x % 128 == 0;
  for (int id = blockIdx.x; id < tiles_m * tiles_n; id += gridDim.x) {
    const tile::Tile to = tile::raster<8>(id, tiles_m, tiles_n);
    const int m0 = to.m * BM + group * 64, n0 = to.n * BN;
    float acc[BN / 2];
    int before = -1;
    for (int step = 0; step < steps; ++step, at.advance()) {
      ptx::mbarrier_wait_parity(&s.full[at.slot], at.phase);
      ptx::wgmma_fence();
      for (int k = 0; k < BK; k += 16)
        ptx::wgmma_mma_async(acc, A::at(s.A[at.slot], group * 64, k), B::at(s.B[at.slot], 0, k),
                             step + k > 0);
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<1>();
      if (first && before >= 0) ptx::mbarrier_arrive(&s.empty[before]);
      before = at.slot;
    }
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_fence_operands(acc);
    if (first) ptx::mbarrier_arrive(&s.empty[before]);

    tile::apply(acc, m0, n0, g.M, g.N, tile::Plain());
    for (int panel = 0; panel < BN / 64; ++panel) {
      if (first) ptx::cp_async_bulk_wait_group_read<0>();
      ptx::bar_sync(1 + group, 128);
      tile::stage(s.C[group], acc, panel);
      ptx::fence_proxy_async_shared_cta();
      ptx::bar_sync(1 + group, 128);
      if (first) {
        ptx::cp_async_bulk_tensor_2d_store(g.C_map, n0 + panel * 64, m0, s.C[group]);
        ptx::cp_async_bulk_commit_group();
      }
    }
  }
  if (first) ptx::cp_async_bulk_wait_group<0>();
}
