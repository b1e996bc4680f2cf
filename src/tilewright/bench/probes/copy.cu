// copy: every 16-byte chunk read once and written once, UNROLL in flight a thread.
extern "C" __global__ __launch_bounds__(THREADS)
void probe(const uint4* __restrict__ from, uint4* __restrict__ to, unsigned long long chunks) {
  const size_t threads = size_t(gridDim.x) * THREADS;
  for (size_t at = size_t(blockIdx.x) * THREADS + threadIdx.x; at < chunks;
       at += UNROLL * threads) {
    uint4 got[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i)
      if (at + i * threads < chunks) got[i] = from[at + i * threads];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i)
      if (at + i * threads < chunks) to[at + i * threads] = got[i];
  }
}
