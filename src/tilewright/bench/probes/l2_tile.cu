// l2_tile: a block copies a tile of BYTES by cp.async.cg, waits until all of it is there, and
// copies the next: what a kernel with one buffer waits for, once a K step. The tiles of all blocks
// walk over `chunks` times 16 bytes, a power of two, which L2 holds.
#include "ptx/cp_async.cuh"

constexpr int CHUNKS = BYTES / 16;

extern "C" __global__ __launch_bounds__(THREADS)
void probe(const uint4* __restrict__ from, unsigned* out, unsigned chunks, int steps) {
  __shared__ uint4 tile[CHUNKS];
  unsigned at = blockIdx.x * CHUNKS + threadIdx.x;
#pragma unroll 1
  for (int step = 0; step < steps; ++step, at += gridDim.x * CHUNKS) {
#pragma unroll
    for (int i = 0; i < CHUNKS; i += THREADS)
      ptx::cp_async_cg_16(&tile[threadIdx.x + i], &from[(at + i) & (chunks - 1)]);
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<0>();
    __syncthreads();                                  // everyone's part is there
  }
  unsigned sum = 0;
#pragma unroll
  for (int i = 0; i < CHUNKS; i += THREADS) {
    const uint4 got = tile[CHUNKS - 1 - threadIdx.x - i];
    sum += got.x ^ got.y ^ got.z ^ got.w;
  }
  out[size_t(blockIdx.x) * THREADS + threadIdx.x] = sum;
}
