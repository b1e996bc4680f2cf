// cub_block: CUB's collectives of a block, one kernel each: 128 threads, 4 items a thread.
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

constexpr int THREADS = 128, ITEMS = 4;

// One sum a block, by each of the three algorithms: warp shuffles, raking, raking in order.
extern "C" __global__ void reduce(float* out, const float* x, int n) {
  using Shuffles = cub::BlockReduce<float, THREADS>;
  using Raking = cub::BlockReduce<float, THREADS, cub::BLOCK_REDUCE_RAKING>;
  using Ordered = cub::BlockReduce<float, THREADS, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>;
  __shared__ union {
    typename Shuffles::TempStorage shuffles;
    typename Raking::TempStorage raking;
    typename Ordered::TempStorage ordered;
  } temp;
  int i = blockIdx.x * THREADS + threadIdx.x;
  int valid = min(n - (int)blockIdx.x * THREADS, THREADS);
  float value = i < n ? x[i] : 0.0f;
  float sum = Shuffles(temp.shuffles).Sum(value, valid);
  __syncthreads();
  float high = Raking(temp.raking).Reduce(value, [](float a, float b) { return a > b ? a : b; });
  __syncthreads();
  float again = Ordered(temp.ordered).Sum(value);
  if (threadIdx.x == 0) {
    out[3 * blockIdx.x] = sum;
    out[3 * blockIdx.x + 1] = high;
    out[3 * blockIdx.x + 2] = again;
  }
}

// Inclusive and exclusive sums of 512 ints, loaded and stored by a transposition.
extern "C" __global__ void scan(int* inclusive, int* exclusive, const int* x) {
  using Load = cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  using Store = cub::BlockStore<int, THREADS, ITEMS, cub::BLOCK_STORE_TRANSPOSE>;
  using Scan = cub::BlockScan<int, THREADS>;
  using Raking = cub::BlockScan<int, THREADS, cub::BLOCK_SCAN_RAKING>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
    typename Scan::TempStorage scan;
    typename Raking::TempStorage raking;
  } temp;
  int items[ITEMS], sums[ITEMS], first = blockIdx.x * THREADS * ITEMS;
  Load(temp.load).Load(x + first, items);
  __syncthreads();
  Scan(temp.scan).InclusiveSum(items, sums);
  __syncthreads();
  Store(temp.store).Store(inclusive + first, sums);
  __syncthreads();
  Raking(temp.raking).ExclusiveSum(items, sums);
  __syncthreads();
  Store(temp.store).Store(exclusive + first, sums);
}

// Sorts 512 pairs by signed keys, four bits a pass.
extern "C" __global__ void sort(int* keys, int* values) {
  using Sort = cub::BlockRadixSort<int, THREADS, ITEMS, int>;
  __shared__ typename Sort::TempStorage temp;
  int k[ITEMS], v[ITEMS], first = threadIdx.x * ITEMS;
  for (int i = 0; i < ITEMS; ++i) k[i] = keys[first + i], v[i] = values[first + i];
  __syncthreads();
  Sort(temp).Sort(k, v);
  for (int i = 0; i < ITEMS; ++i) keys[first + i] = k[i], values[first + i] = v[i];
}

// From blocked to striped and by ranks.
extern "C" __global__ void exchange(float* striped, float* scattered, const float* x, const int* to) {
  using Exchange = cub::BlockExchange<float, THREADS, ITEMS>;
  __shared__ typename Exchange::TempStorage temp;
  float items[ITEMS], moved[ITEMS];
  int ranks[ITEMS], first = threadIdx.x * ITEMS;
  for (int i = 0; i < ITEMS; ++i) items[i] = x[first + i], ranks[i] = to[first + i];
  Exchange(temp).BlockedToStriped(items, moved);
  for (int i = 0; i < ITEMS; ++i) striped[i * THREADS + threadIdx.x] = moved[i];
  __syncthreads();
  Exchange(temp).ScatterToBlocked(items, ranks);
  for (int i = 0; i < ITEMS; ++i) scattered[first + i] = items[i];
}

// Counts of bytes: by sorting, and by atomics of shared memory.
extern "C" __global__ void histogram(unsigned* sorted, unsigned* counted, const unsigned char* x) {
  using Sorted = cub::BlockHistogram<unsigned char, THREADS, ITEMS, 32, cub::BLOCK_HISTO_SORT>;
  using Counted = cub::BlockHistogram<unsigned char, THREADS, ITEMS, 32, cub::BLOCK_HISTO_ATOMIC>;
  __shared__ typename Sorted::TempStorage a;
  __shared__ typename Counted::TempStorage b;
  __shared__ unsigned bins[2][32];
  unsigned char items[ITEMS];
  for (int i = 0; i < ITEMS; ++i) items[i] = x[threadIdx.x * ITEMS + i];
  Counted(b).Histogram(items, bins[1]);
  __syncthreads();
  Sorted(a).Histogram(items, bins[0]);
  __syncthreads();
  if (threadIdx.x < 32) {
    sorted[threadIdx.x] = bins[0][threadIdx.x];
    counted[threadIdx.x] = bins[1][threadIdx.x];
  }
}
