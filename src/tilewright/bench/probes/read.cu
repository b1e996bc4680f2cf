// read: every 16-byte chunk read once, UNROLL loads in flight a thread, THREADS threads a block.
// The xor of all bytes keeps the loads alive; it is stored only if it is one word in 2^32.
extern "C" __global__ __launch_bounds__(THREADS)
void probe(const uint4* __restrict__ from, unsigned* sink, unsigned long long chunks) {
  const size_t threads = size_t(gridDim.x) * THREADS;
  unsigned word = 0;
  for (size_t at = size_t(blockIdx.x) * THREADS + threadIdx.x; at < chunks;
       at += UNROLL * threads) {
    uint4 got[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i)
      got[i] = at + i * threads < chunks ? from[at + i * threads] : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) word ^= got[i].x ^ got[i].y ^ got[i].z ^ got[i].w;
  }
  if (word == 0x7fc0ffee) *sink = word;
}
