// cub_warp: CUB's collectives of a warp and of parts of it.
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

// Sums of 32, of 8 and, through shared memory, of the first 7 lanes of each warp.
extern "C" __global__ void reduce(int* out, const int* x) {
  using Whole = cub::WarpReduce<int>;
  using Eighth = cub::WarpReduce<int, 8>;
  using Odd = cub::WarpReduce<int, 7>;
  __shared__ typename Whole::TempStorage whole[2];
  __shared__ typename Eighth::TempStorage eighth[8];
  __shared__ typename Odd::TempStorage odd[2];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, value = x[threadIdx.x];
  int all = Whole(whole[warp]).Sum(value);
  int part = Eighth(eighth[threadIdx.x / 8]).Sum(value);
  int seven = lane < 7 ? Odd(odd[warp]).Sum(value) : 0;
  if (lane == 0) out[warp] = all;
  if (lane % 8 == 0) out[2 + threadIdx.x / 8] = part;
  if (lane == 0) out[10 + warp] = seven;
}

// Running sums of floats, and maxima of doubles by a functor of one's own.
extern "C" __global__ void scan(float* sums, double* maxima, const float* x) {
  using Sum = cub::WarpScan<float>;
  using Max = cub::WarpScan<double>;
  __shared__ typename Sum::TempStorage a[2];
  __shared__ typename Max::TempStorage b[2];
  int warp = threadIdx.x / 32;
  float sum;
  double high;
  Sum(a[warp]).InclusiveSum(x[threadIdx.x], sum);
  Max(b[warp]).ExclusiveScan((double)x[threadIdx.x], high, -1e300,
                             [](double p, double q) { return p > q ? p : q; });
  sums[threadIdx.x] = sum;
  maxima[threadIdx.x] = high;
}

// Sorts 4 keys a lane of each half warp. Merging reads a key past the last one and drops it, so
// that the memory is cleared before.
extern "C" __global__ void sort(int* keys) {
  using Sort = cub::WarpMergeSort<int, 4, 16>;
  __shared__ typename Sort::TempStorage temp[4];
  for (int i = threadIdx.x; i < sizeof(temp) / 4; i += blockDim.x) ((int*)temp)[i] = 0;
  __syncthreads();
  int k[4], first = threadIdx.x * 4;
  for (int i = 0; i < 4; ++i) k[i] = keys[first + i];
  Sort(temp[threadIdx.x / 16]).Sort(k, [](int a, int b) { return a > b; });
  for (int i = 0; i < 4; ++i) keys[first + i] = k[i];
}
