// store: 4 bytes a lane to C, of which ROWS rows meet in an instruction: with 8 rows of 16 bytes as
// a thread holds the sums of mma and wgmma, with 1 row of 128 bytes as C leaves from shared memory.
// A block stores its tile of THREADS / 2 rows of 512 bytes over and over; L2 holds all of them.
constexpr int COLUMNS = 128, PITCH = 2048;            // words of a tile's row, and of C's
constexpr int LANES = 32 / ROWS, TURN = COLUMNS / LANES;

extern "C" __global__ __launch_bounds__(THREADS)
void probe(unsigned* to, unsigned* out, int steps) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int across = PITCH / COLUMNS;                 // tiles beside each other
  const int row = blockIdx.x / across * (THREADS / 2) + warp * 16 + lane / LANES;
  unsigned* place = to + size_t(row) * PITCH + blockIdx.x % across * COLUMNS + lane % LANES;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
#pragma unroll
    for (int down = 0; down < 16; down += ROWS)
#pragma unroll
      for (int i = 0; i < TURN; ++i)
        place[down * PITCH + i * LANES] = step;
    __syncthreads();                                  // lest the compiler keep the last alone
  }
  out[size_t(blockIdx.x) * THREADS + threadIdx.x] = steps;
}
