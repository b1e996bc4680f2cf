// Cooperative groups, and named barriers between a producer and its consumers.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

extern "C" __global__ void tiled_groups(float* out, const float* in, int n) {
  __shared__ float part[8];
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
  int i = block.group_index().x * block.size() + block.thread_rank();
  float s = cg::reduce(tile, i < n ? in[i] : 0.f, cg::plus<float>());
  if (tile.thread_rank() == 0) part[tile.meta_group_rank()] = s;
  block.sync();
  if (block.thread_rank() == 0) {
    for (unsigned t = 1; t < tile.meta_group_size(); ++t) s += part[t];
    out[block.group_index().x] = s;
  }
}

// Lanes that happen to be here together share one atomic.
extern "C" __global__ void coalesced(int* count, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && in[i] % 3 == 0) {
    cg::coalesced_group here = cg::coalesced_threads();
    if (here.thread_rank() == 0) atomicAdd(count, (int)here.size());
  }
}

// Two teams of two warps, each with a barrier of its own.
template <int Team>
__device__ float other_half(float* mine, float v, int t) {
  mine[t] = v;
  asm volatile("bar.sync %0, %1;" ::"n"(Team + 1), "n"(64) : "memory");
  return mine[t ^ 32];
}

extern "C" __global__ void teams(float* out, const float* in) {
  __shared__ float s[2][64];
  int t = threadIdx.x % 64, team = threadIdx.x / 64;
  float v = in[threadIdx.x], w;
  if (team == 0) {
    w = other_half<0>(s[0], v, t);
  } else {
    w = other_half<1>(s[1], v * 3.f, t);
  }
  out[threadIdx.x] = v - w;
}

#ifdef REGISTERS  // the number in a register
__device__ void arrive(int id) { asm volatile("bar.arrive %0, 64;" ::"r"(id) : "memory"); }
__device__ void wait(int id) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(64) : "memory"); }
#else
template <int Id>
__device__ void arrive_at() { asm volatile("bar.arrive %0, 64;" ::"n"(Id) : "memory"); }
template <int Id>
__device__ void wait_at() { asm volatile("bar.sync %0, 64;" ::"n"(Id) : "memory"); }
#define CHOOSE(f, id) id == 1 ? f<1>() : id == 2 ? f<2>() : id == 3 ? f<3>() : f<4>()
__device__ void arrive(int id) { CHOOSE(arrive_at, id); }
__device__ void wait(int id) { CHOOSE(wait_at, id); }
#endif

// Warp 0 produces, warp 1 consumes; two slots, each with a barrier for full and one for empty.
extern "C" __global__ void producer_consumer(float* out, const float* in, int steps) {
  __shared__ float slot[2][32];
  int lane = threadIdx.x & 31;
  if (threadIdx.x < 32) {
    for (int s = 0; s < steps; ++s) {
      wait(3 + (s & 1));
      slot[s & 1][lane] = in[s * 32 + lane] * 2.f;
      arrive(1 + (s & 1));
    }
    wait(3); wait(4);
  } else {
    arrive(3); arrive(4);
    float sum = 0;
    for (int s = 0; s < steps; ++s) {
      wait(1 + (s & 1));
      sum += slot[s & 1][lane ^ 5];
      arrive(3 + (s & 1));
    }
    out[lane] = sum;
  }
}
