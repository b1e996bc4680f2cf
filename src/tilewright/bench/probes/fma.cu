// fma: fp32 multiply-adds as fast as they go: operands stay in registers, nothing is loaded.
// ROWS x COLUMNS independent sums a thread; with one sum, each waits for the one before. Threads
// have operands of their own, else they would lie in uniform registers.
constexpr int REPEAT = 256 / (ROWS * COLUMNS);        // the loop's own instructions: below 2 %

extern "C" __global__ __launch_bounds__(THREADS)
void probe(const float* __restrict__ from, float* out, int steps) {
  float a[ROWS], b[COLUMNS], acc[ROWS][COLUMNS] = {};
#pragma unroll
  for (int i = 0; i < ROWS; ++i) a[i] = from[i * THREADS + threadIdx.x];
#pragma unroll
  for (int j = 0; j < COLUMNS; ++j) b[j] = from[(ROWS + j) * THREADS + threadIdx.x];
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int repeat = 0; repeat < REPEAT; ++repeat)
#pragma unroll
      for (int i = 0; i < ROWS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < ROWS * COLUMNS; ++i) sum += acc[i / COLUMNS][i % COLUMNS];
  out[size_t(blockIdx.x) * THREADS + threadIdx.x] = sum;
}
