// chase: loads whose address is what the load before returned, CHAINS of them a thread at a time.
// Each thread stays at its own places, STRIDE bytes from lane to lane: every word holds its own
// offset. SHARED: from shared memory, WIDTH bytes a lane; else 4 bytes from global through L1.
#include "ptx/ld_shared.cuh"

constexpr int WORDS = SHARED ? CHAINS * THREADS * WIDTH / 4 : 1;
constexpr int REPEAT = 32;                            // the loop's own instructions: hidden

// The word at an offset; `rest` adds up what else comes with it, lest a narrower load be made.
__device__ __forceinline__ unsigned next(const unsigned* place, unsigned at, unsigned& rest) {
  if (WIDTH == 4)
    return *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(place) + at);
  float got[4];                                       // as bits
  ptx::ld_shared_v4(got, ptx::shared_address(place) + at);
  rest += __float_as_uint(got[1]) + __float_as_uint(got[2]) + __float_as_uint(got[3]);
  return __float_as_uint(got[0]);
}

extern "C" __global__ __launch_bounds__(THREADS)
void probe(const unsigned* __restrict__ from, unsigned* out, int steps) {
  __shared__ __align__(16) unsigned held[WORDS];
  if (SHARED)
    for (int i = threadIdx.x; i < WORDS; i += THREADS) held[i] = from[i];
  __syncthreads();
  unsigned at[CHAINS], sum = 0;                        // of the last offsets and the rest
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) at[i] = (i * THREADS + threadIdx.x) * STRIDE;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int repeat = 0; repeat < REPEAT; ++repeat)
#pragma unroll
      for (int i = 0; i < CHAINS; ++i) at[i] = next(SHARED ? held : from, at[i], sum);
  }
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) sum += at[i];
  out[size_t(blockIdx.x) * THREADS + threadIdx.x] = sum;
}
