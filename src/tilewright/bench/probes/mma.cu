// mma: mma.sync m16n8k16 as fast as it goes: operands stay in registers, nothing is loaded.
// A warp has 4 x 4 independent accumulators, enough to cover the latency of each.
#include "ptx/mma.cuh"

using T = ELEMENT;
constexpr int ROWS = 4, COLUMNS = 4;                  // fragments of A and of B a warp holds
constexpr int WORDS = ROWS * 4 + COLUMNS * 2;         // 32-bit words of them a thread

extern "C" __global__ __launch_bounds__(THREADS, 2)
void probe(const unsigned* __restrict__ words, float* out, int steps) {
  unsigned a[ROWS][4], b[COLUMNS][2];
  float acc[ROWS][COLUMNS][4] = {};
  const unsigned* mine = words + threadIdx.x * WORDS;
#pragma unroll
  for (int i = 0; i < ROWS * 4; ++i) a[i / 4][i % 4] = mine[i];
#pragma unroll
  for (int i = 0; i < COLUMNS * 2; ++i) b[i / 2][i % 2] = mine[ROWS * 4 + i];
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
#pragma unroll
      for (int j = 0; j < COLUMNS; ++j) ptx::mma_m16n8k16<T>(acc[i][j], a[i], b[j]);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < ROWS * COLUMNS * 4; ++i) sum += acc[i / 16][i / 4 % 4][i % 4];
  out[size_t(blockIdx.x) * THREADS + threadIdx.x] = sum;
}
