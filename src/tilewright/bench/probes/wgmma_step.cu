// wgmma_step: K steps of a block and nothing else: two warpgroups multiply 64 x COLUMNS x 64 each
// out of a ring of four slots. FILL: a producer brings a tile of A and B for each step by TMA;
// without, the first four stay. TURNS: both wait for the products of a step before the next.
// SHARE neighbouring blocks load the same tiles, which walk over `rows` of 128 bytes, a power of
// two that L2 holds.
#include "ptx/mbarrier.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/tma.cuh"
#if COLUMNS == 256
#include "ptx/wgmma_m64n256k16.cuh"
#else
#include "ptx/wgmma_m64n128k16.cuh"
#endif
#include "tile/operand.cuh"
#include "tile/ring.cuh"

constexpr int SLOTS = 4, SHARE = 8, BOX = 64;         // rows of 64 elements in a box
constexpr int ROWS = 128 + COLUMNS, BYTES = ROWS * 128;
using A = tile::Operand<bf16, ptx::Major::K, 128, 64>;
using B = tile::Operand<bf16, ptx::Major::K, COLUMNS, 64>;

struct Smem {
  alignas(1024) bf16 A[SLOTS][128 * 64];
  alignas(1024) bf16 B[SLOTS][COLUMNS * 64];
  ptx::mbarrier full[SLOTS], empty[SLOTS];
};
static_assert(sizeof(Smem) <= SMEM_BYTES, "pipes.py gives too little shared memory");

extern "C" __global__ __launch_bounds__(THREADS)
void probe(const __grid_constant__ TensorMap map, unsigned* out, int rows, int steps) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);
  const int consumer = int(threadIdx.x / 128) - 1;    // -1: the producer
  const int loads = FILL || steps < SLOTS ? steps : SLOTS;
  if (threadIdx.x == 0) {
    for (ptx::mbarrier& bar : s.full) ptx::mbarrier_init(&bar, 1);
    for (ptx::mbarrier& bar : s.empty) ptx::mbarrier_init(&bar, 8);  // the consumers' warps
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  tile::Ring<SLOTS> at;
  float acc[COLUMNS / 2] = {};
  if (consumer < 0) {
    int row = blockIdx.x / SHARE * ROWS;
    if (threadIdx.x == 0)
      for (int step = 0; step < loads; ++step, at.advance(), row += gridDim.x / SHARE * ROWS) {
        ptx::mbarrier_wait_parity(&s.empty[at.slot], at.phase ^ 1);
        ptx::mbarrier_arrive_expect_tx(&s.full[at.slot], BYTES);
        for (int i = 0; i < ROWS; i += BOX) {
          bf16* to = i < 128 ? s.A[at.slot] + i * 64 : s.B[at.slot] + (i - 128) * 64;
          ptx::cp_async_bulk_tensor_2d(to, map, &s.full[at.slot], 0, (row + i) & (rows - 1));
        }
      }
  } else {
    ptx::wgmma_fence_operands(acc);
    int before = 0;                                   // the slot of the step before
#pragma unroll 1
    for (int step = 0; step < steps; ++step, at.advance()) {
      if (step < loads) ptx::mbarrier_wait_parity(&s.full[at.slot], at.phase);
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < 64; k += 16)
        ptx::wgmma_mma_async(acc, A::at(s.A[at.slot], consumer * 64, k), B::at(s.B[at.slot], 0, k),
                             true);
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<TURNS ? 0 : 1>();
      if (TURNS) ptx::bar_sync(1, 256);
      if (FILL && step > 0 && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.empty[before]);
      before = at.slot;
    }
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_fence_operands(acc);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < COLUMNS / 2; ++i) sum += acc[i];
  out[size_t(blockIdx.x) * THREADS + threadIdx.x] = __float_as_uint(sum);
}
