// tma_tile: a block copies a tile of BYTES by TMA, in boxes of 64 elements by up to 64 rows, waits
// for the mbarrier that counts them, and copies the next: what a kernel with one buffer waits for,
// once a K step. The tiles of all blocks walk over `rows` of 128 bytes, a power of two.
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"

constexpr int ROWS = BYTES / 128, BOX = ROWS < 64 ? ROWS : 64;

extern "C" __global__ __launch_bounds__(THREADS)
void probe(const __grid_constant__ TensorMap map, unsigned* out, int rows, int steps) {
  __shared__ alignas(1024) unsigned tile[BYTES / 4];
  __shared__ ptx::mbarrier full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  int at = blockIdx.x * ROWS;
#pragma unroll 1
  for (int step = 0; step < steps; ++step, at += gridDim.x * ROWS) {
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(&full, BYTES);
#pragma unroll
      for (int row = 0; row < ROWS; row += BOX)
        ptx::cp_async_bulk_tensor_2d(tile + row * 32, map, &full, 0, (at + row) & (rows - 1));
    }
    ptx::mbarrier_wait_parity(&full, step % 2);
    __syncthreads();                                  // all have seen this phase
  }
  out[size_t(blockIdx.x) * THREADS + threadIdx.x] = tile[threadIdx.x];
}
