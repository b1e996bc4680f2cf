// hopper_ring: four buffers; three tiles are on their way while one is multiplied.
//
// Idea      a ring of STAGES buffers, each with its own barrier: all are filled at the start, and
//           one that everyone has read is filled again at once, for STAGES steps later.
// Expect    the latency of a load, hundreds of clocks, is spread over three steps and vanishes. The
//           barrier of the block stays: warpgroups wait for each other after every step.
// Found     little over two resident blocks that take turns: with a ring one has the place to
//           itself. 4096³ bf16 on an H200: 299.3 µs, 459.3 TFLOP/s, 0.70 of torch
//           (2026-11-30T14:51:39Z).
// Next      hopper_roles lets nobody wait who need not.
#include "tile/tma_gemm_args.cuh"
#include "tile/operand.cuh"
#include "tile/wgmma_store.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/wgmma_m64n128k16.cuh"

// --- Tile -------------------------------------------------------------------------------
// BM, BN, BK = 128, 128, 64 elements a block and STAGES = 4 come from ladder/rungs.py.
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

  for (int step = 0; step < min(STAGES, steps); ++step)
    if (threadIdx.x == 0) load(step);
  for (int step = 0; step < steps; ++step) {
    ptx::mbarrier_wait_parity(&s.full[step % STAGES], step / STAGES % 2);
    multiply(step);
    __syncthreads();                                  // everyone has read the tile
    if (threadIdx.x == 0 && step + STAGES < steps) load(step + STAGES);
  }

  // --- Epilogue -------------------------------------------------------------------------
  ptx::wgmma_fence_operands(acc);
  tile::store(g.C, m0 + group_m, n0, g.M, g.N, acc);
}
