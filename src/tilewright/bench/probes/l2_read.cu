// l2_read: all blocks read the same few MiB again and again, past L1 (.cg), UNROLL loads of 16
// bytes in flight a thread. `chunks`, how many 16 bytes there are, is a power of two.
#include "ptx/ld_global.cuh"

extern "C" __global__ __launch_bounds__(THREADS)
void probe(const uint4* __restrict__ from, unsigned* out, unsigned chunks, int steps) {
  const unsigned sweep = gridDim.x * THREADS * UNROLL;
  unsigned at = blockIdx.x * THREADS * UNROLL + threadIdx.x, word = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step, at += sweep) {
    uint4 got[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i)
      got[i] = ptx::ld_global_cg(&from[(at + i * THREADS) & (chunks - 1)]);
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) word += got[i].x ^ got[i].y ^ got[i].z ^ got[i].w;
  }
  out[size_t(blockIdx.x) * THREADS + threadIdx.x] = word;
}
