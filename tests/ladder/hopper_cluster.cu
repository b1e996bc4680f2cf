// What a cluster adds to hopper_smoke.cu: CLUSTER_M x CLUSTER_N blocks on neighbouring tiles that
// load parts of A and B for each other, and empty barriers that all of them arrive at.
#include "ptx/cluster.cuh"
#include "ptx/elect.cuh"
#include "ptx/mbarrier_cluster.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/wgmma_m64n128k16.cuh"
#include "tile/operand_multicast.cuh"
#include "tile/ring.cuh"
#include "tile/tma_gemm_args.cuh"
#include "tile/wgmma_store.cuh"

using A = tile::Operand<T, ptx::Major::A_MAJOR, BM, BK>;
using B = tile::Operand<T, ptx::Major::B_MAJOR, BN, BK>;
constexpr int CONSUMERS = BM / 64, THREADS = 128 * (1 + CONSUMERS), BLOCKS = CLUSTER_M * CLUSTER_N;

struct Smem {
  alignas(1024) T A[STAGES][BM * BK];
  alignas(1024) T B[STAGES][BN * BK];
  ptx::mbarrier full[STAGES], empty[STAGES];
};
static_assert(sizeof(Smem) == SMEM_BYTES, "the rung table and Smem disagree");

extern "C" __global__ __launch_bounds__(THREADS, 1)
void gemm(const __grid_constant__ TmaGemmArgs g) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);
  const int rank = ptx::cluster_ctarank(), m = rank / CLUSTER_N, n = rank % CLUSTER_N;
  const int clusters_n = (g.N + BN * CLUSTER_N - 1) / (BN * CLUSTER_N), id = blockIdx.x / BLOCKS;
  const int m0 = (id / clusters_n * CLUSTER_M + m) * BM;
  const int n0 = (id % clusters_n * CLUSTER_N + n) * BN;
  const int steps = (g.K + BK - 1) / BK, group = int(threadIdx.x / 128) - 1;

  if (threadIdx.x == 0) {
    for (ptx::mbarrier& bar : s.full) ptx::mbarrier_init(&bar, 1);
    for (ptx::mbarrier& bar : s.empty) ptx::mbarrier_init(&bar, CONSUMERS * BLOCKS);
    ptx::fence_mbarrier_init();
  }
  ptx::barrier_cluster_arrive_release();
  ptx::barrier_cluster_wait_acquire();

  tile::Ring<STAGES> at;
  if (group < 0) {
    ptx::setmaxnreg_dec<40>();
    if (threadIdx.x / 32 == 0) {
      if (ptx::elect_sync()) {
        const unsigned short row = ((1 << CLUSTER_N) - 1) << (m * CLUSTER_N);
        unsigned short column = 0;
        for (int i = 0; i < CLUSTER_M; ++i) column |= 1 << (i * CLUSTER_N + n);
        for (int step = 0; step < steps; ++step, at.advance()) {
          ptx::mbarrier_wait_parity(&s.empty[at.slot], at.phase ^ 1);
          ptx::mbarrier_arrive_expect_tx(&s.full[at.slot], A::BYTES + B::BYTES);
          tile::load_multicast<A, CLUSTER_N>(s.A[at.slot], g.A_map, &s.full[at.slot], m0,
                                             step * BK, n, row);
          tile::load_multicast<B, CLUSTER_M>(s.B[at.slot], g.B_map, &s.full[at.slot], n0,
                                             step * BK, m, column);
        }
      }
      __syncwarp();
    }
  } else {
    ptx::setmaxnreg_inc<232>();
    const int lane = threadIdx.x % 128;
    float acc[BN / 2];
    for (int step = 0; step < steps; ++step, at.advance()) {
      ptx::mbarrier_wait_parity(&s.full[at.slot], at.phase);
      ptx::wgmma_fence();
      for (int k = 0; k < BK; k += 16)
        ptx::wgmma_mma_async(acc, A::at(s.A[at.slot], group * 64, k), B::at(s.B[at.slot], 0, k),
                             step + k > 0);
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<0>();
      if (lane < BLOCKS) ptx::mbarrier_arrive_cluster(ptx::mapa(&s.empty[at.slot], lane));
    }
    ptx::wgmma_fence_operands(acc);
    tile::store(g.C, m0 + group * 64, n0, g.M, g.N, acc);
  }
  ptx::barrier_cluster_arrive_relaxed();
  ptx::barrier_cluster_wait_acquire();                // nobody signals a block that has left
}
