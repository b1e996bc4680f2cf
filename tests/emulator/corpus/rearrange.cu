// Transposing, counting, sorting and compacting.
#include <cmath>
#include <cstdint>

constexpr int TILE = 32;
constexpr int ROWS = 8;

template <typename T>
__global__ void transpose(T* __restrict__ out, const T* __restrict__ in, int rows, int cols) {
  __shared__ T tile[TILE][TILE + 1];
  int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS)
    if (x < cols && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * cols + x];
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += ROWS)
    if (x < rows && y + j < cols) out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}
template __global__ void transpose<float>(float*, const float*, int, int);
template __global__ void transpose<double>(double*, const double*, int, int);
template __global__ void transpose<unsigned short>(unsigned short*, const unsigned short*, int, int);

extern "C" __global__ void histogram(unsigned int* bins, const unsigned char* data, size_t n) {
  __shared__ unsigned int local[256];
  for (int b = threadIdx.x; b < 256; b += blockDim.x) local[b] = 0;
  __syncthreads();
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    atomicAdd(&local[data[i]], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += blockDim.x)
    if (local[b]) atomicAdd(bins + b, local[b]);
}

extern "C" __global__ void bitonic(float* keys, int* index, int n) {
  __shared__ float k[512];
  __shared__ int v[512];
  unsigned t = threadIdx.x;
  for (unsigned i = t; i < 512; i += blockDim.x) {
    k[i] = i < n ? keys[i] : __int_as_float(0x7f800000);
    v[i] = i;
  }
  for (unsigned size = 2; size <= 512; size <<= 1) {
    for (unsigned stride = size >> 1; stride > 0; stride >>= 1) {
      __syncthreads();
      unsigned lo = 2 * t - (t & (stride - 1)), hi = lo + stride;
      bool up = (lo & size) == 0;
      if ((k[lo] > k[hi]) == up) {
        float a = k[lo]; k[lo] = k[hi]; k[hi] = a;
        int b = v[lo]; v[lo] = v[hi]; v[hi] = b;
      }
    }
  }
  __syncthreads();
  for (unsigned i = t; i < n; i += blockDim.x) {
    keys[i] = k[i];
    index[i] = v[i];
  }
}

// How many keys of a block have each digit: counters of its own for every warp.
extern "C" __global__ void radix_count(int* counts, const uint32_t* keys, int n, int shift) {
  constexpr int kWarps = 4;
  __shared__ int hist[kWarps][16];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  if (lane < 16) hist[warp][lane] = 0;
  __syncwarp();
  int begin = blockIdx.x * 512;
  for (int i = begin + threadIdx.x; i < begin + 512; i += blockDim.x) {
    unsigned active = __ballot_sync(0xffffffffu, i < n);
    if (i < n) {
      unsigned digit = (keys[i] >> shift) & 15u;
      unsigned peers = __match_any_sync(active, digit);
      int leader = __ffs(peers) - 1;
      if (lane == leader) hist[warp][digit] += __popc(peers);
    }
    __syncwarp();
  }
  __syncthreads();
  if (threadIdx.x < 16) {
    int total = 0;
    for (int w = 0; w < kWarps; ++w) total += hist[w][threadIdx.x];
    counts[threadIdx.x * gridDim.x + blockIdx.x] = total;
  }
}

// Keeps what is positive; the order of warps is nobody's promise.
extern "C" __global__ void compact(float* out, int* count, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i < n ? in[i] : -1.f;
  bool keep = v > 0;
  unsigned mask = __ballot_sync(0xffffffff, keep);
  int lane = threadIdx.x % 32;
  int base = 0;
  if (lane == 0 && mask) base = atomicAdd(count, __popc(mask));
  base = __shfl_sync(0xffffffff, base, 0);
  if (keep) out[base + __popc(mask & ((1u << lane) - 1))] = v;
}

// The K largest of each row: one warp a row.
template <int K>
__global__ void top_k(float* best, int* where, const float* x, int rows, int cols) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x & 31;
  if (row >= rows) return;
  x += (size_t)row * cols;
  float last = INFINITY;
  int last_at = -1;
  for (int k = 0; k < K; ++k) {
    float v = -INFINITY;
    int at = 0x7fffffff;
    for (int c = lane; c < cols; c += 32) {
      float u = x[c];
      bool left = u < last || (u == last && c > last_at);
      if (left && u > v) { v = u; at = c; }
    }
    for (int m = 16; m; m >>= 1) {
      float u = __shfl_xor_sync(0xffffffff, v, m);
      int a = __shfl_xor_sync(0xffffffff, at, m);
      if (u > v || (u == v && a < at)) { v = u; at = a; }
    }
    if (lane == 0) { best[row * K + k] = v; where[row * K + k] = at; }
    last = v;
    last_at = at;
  }
}
template __global__ void top_k<5>(float*, int*, const float*, int, int);
