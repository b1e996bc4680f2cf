// groups: cooperative groups without copies: tiles, coalesced threads, reductions and scans.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

// Sums of a block: tiles of a warp, then one tile over the warps.
extern "C" __global__ void reduce(float* out, const float* x, int n) {
  __shared__ float parts[8];
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  float sum = 0.0f;
  for (int i = blockIdx.x * block.size() + block.thread_rank(); i < n;
       i += gridDim.x * block.size())
    sum += x[i];
  sum = cg::reduce(warp, sum, cg::plus<float>());
  if (warp.thread_rank() == 0) parts[warp.meta_group_rank()] = sum;
  block.sync();
  if (warp.meta_group_rank() == 0) {
    sum = warp.thread_rank() < warp.meta_group_size() ? parts[warp.thread_rank()] : 0.0f;
    sum = cg::reduce(warp, sum, cg::plus<float>());
    if (warp.thread_rank() == 0) out[blockIdx.x] = sum;
  }
}

// Tiles of 8: maximum of ints by redux or shuffles, a scan, a shuffle and a vote.
extern "C" __global__ void tiles(int* high, int* sums, int* turned, unsigned* votes, const int* x) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  int i = threadIdx.x, value = x[i];
  high[i] = cg::reduce(tile, value, cg::greater<int>());
  sums[i] = cg::inclusive_scan(tile, value);
  turned[i] = tile.shfl(value, (tile.thread_rank() + 3) % 8);
  votes[i] = tile.ballot(value > 0);
}

// Where x is odd, the threads that got there are a group of their own.
extern "C" __global__ void coalesced(int* sums, int* counts, int* groups, const int* x) {
  int i = threadIdx.x;
  if (x[i] & 1) {
    auto active = cg::coalesced_threads();
    sums[i] = cg::reduce(active, x[i], cg::plus<int>());
    counts[i] = active.size() * 100 + active.thread_rank();
    groups[i] = cg::exclusive_scan(active, 1);
  } else {
    auto active = cg::coalesced_threads();
    auto alike = cg::labeled_partition(active, x[i] >> 1 & 3);
    sums[i] = cg::reduce(alike, x[i], cg::plus<int>());
    counts[i] = alike.size() * 100 + alike.thread_rank();
    groups[i] = alike.meta_group_size();
  }
}

// All threads of the grid meet, twice; the launch is a cooperative one.
extern "C" __global__ void grid(float* out, float* shared, const float* x) {
  auto all = cg::this_grid();
  int i = all.thread_rank(), n = all.size();
  shared[i] = 2.0f * x[i];
  all.sync();
  float other = shared[(i + 64) % n];
  all.sync();
  shared[i] = other;
  out[i] = other + 1.0f;
}
