// barrier: libcu++'s barriers of a block, which are mbarriers: phases, tokens, copies.
#include <cooperative_groups.h>
#include <cuda/barrier>
namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

// Warps 0 and 1 fill one of two buffers while warps 2 and 3 sum the other: full and empty barriers.
extern "C" __global__ void roles(float* out, const float* x, int tiles) {
  __shared__ float buffer[2][64];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier full[2], empty[2];
  if (threadIdx.x < 2) {
    init(&full[threadIdx.x], blockDim.x);
    init(&empty[threadIdx.x], blockDim.x);
  }
  __syncthreads();
  int me = threadIdx.x % 64;
  if (threadIdx.x < 64) {
    for (int tile = 0; tile < tiles; ++tile) {
      empty[tile % 2].arrive_and_wait();
      buffer[tile % 2][me] = x[(blockIdx.x * tiles + tile) * 64 + me];
      (void)full[tile % 2].arrive();
    }
  } else {
    (void)empty[0].arrive();
    (void)empty[1].arrive();
    float sum = 0.0f;
    for (int tile = 0; tile < tiles; ++tile) {
      full[tile % 2].arrive_and_wait();
      sum += buffer[tile % 2][63 - me];
      (void)empty[tile % 2].arrive();
    }
    out[blockIdx.x * 64 + me] = sum;
  }
}

// memcpy_async that a barrier waits for, one tile ahead.
extern "C" __global__ void copies(float* out, const float* x, int tiles) {
  __shared__ __align__(16) float stage[2][256];
  __shared__ Barrier ready[2];
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) {
    init(&ready[0], block.size());
    init(&ready[1], block.size());
  }
  block.sync();
  const float* mine = x + blockIdx.x * tiles * 256;
  cuda::memcpy_async(block, stage[0], mine, cuda::aligned_size_t<16>(1024), ready[0]);
  float sum = 0.0f;
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles)
      cuda::memcpy_async(block, stage[(tile + 1) % 2], mine + (tile + 1) * 256,
                         cuda::aligned_size_t<16>(1024), ready[(tile + 1) % 2]);
    ready[tile % 2].arrive_and_wait();
    for (int i = 0; i < 4; ++i) sum += stage[tile % 2][(threadIdx.x * 67 + i * 64) % 256];
    block.sync();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Phases by parity; a thread leaves the barrier for good with arrive_and_drop.
extern "C" __global__ void phases(int* out, const int* x) {
  __shared__ int values[64];
  __shared__ Barrier turn;
  if (threadIdx.x == 0) init(&turn, blockDim.x);
  __syncthreads();
  int value = x[threadIdx.x];
  for (int round = 0; round < 3; ++round) {
    values[threadIdx.x] = value;
    (void)turn.arrive();
    turn.wait_parity(0);
    value += values[(threadIdx.x + 1) % 64];
    auto token = turn.arrive();
    turn.wait(static_cast<Barrier::arrival_token&&>(token));
  }
  out[threadIdx.x] = value;
  if (threadIdx.x >= 32) {
    turn.arrive_and_drop();
    return;
  }
  values[threadIdx.x] = 2 * value;
  turn.arrive_and_wait();
  out[64 + threadIdx.x] = values[31 - threadIdx.x];
}
