// Sums of a vector, from a tree in shared memory to one launch for all of it.

namespace reduce {

template <int kThreads>
__global__ void tree(float* __restrict__ partial, const float* __restrict__ x, int n) {
  __shared__ float buf[kThreads];
  const int tid = threadIdx.x;
  float acc = 0.f;
  for (int i = blockIdx.x * kThreads + tid; i < n; i += gridDim.x * kThreads) acc += x[i];
  buf[tid] = acc;
  __syncthreads();
#pragma unroll
  for (int half = kThreads / 2; half > 0; half >>= 1) {
    if (tid < half) buf[tid] += buf[tid + half];
    __syncthreads();
  }
  if (tid == 0) partial[blockIdx.x] = buf[0];
}

template __global__ void tree<128>(float*, const float*, int);
template __global__ void tree<256>(float*, const float*, int);

}  // namespace reduce

__device__ __forceinline__ float warp_sum(float v) {
  for (int offset = warpSize / 2; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffffu, v, offset);
  return v;
}

__device__ float block_sum(float v) {
  static __shared__ float per_warp[32];
  int lane = threadIdx.x % 32, wid = threadIdx.x / 32;
  v = warp_sum(v);
  if (lane == 0) per_warp[wid] = v;
  __syncthreads();
  v = threadIdx.x < (blockDim.x + 31) / 32 ? per_warp[lane] : 0.f;
  if (wid == 0) v = warp_sum(v);
  return v;
}

extern "C" __global__ void sum_shuffle(float* total, const float4* x, size_t n4) {
  float s = 0;
  size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n4; i += stride) {
    float4 v = x[i];
    s += (v.x + v.y) + (v.z + v.w);
  }
  s = block_sum(s);
  if (threadIdx.x == 0) atomicAdd(total, s);
}

// The tree as it was written before warps needed __syncwarp, with it.
extern "C" __global__ void sum_volatile(float* out, const float* in, unsigned n) {
  extern __shared__ float sdata[];
  unsigned tid = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + tid;
  float mine = i < n ? in[i] : 0;
  if (i + blockDim.x < n) mine += in[i + blockDim.x];
  sdata[tid] = mine;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 32; s >>= 1) {
    if (tid < s) sdata[tid] = mine = mine + sdata[tid + s];
    __syncthreads();
  }
  if (tid < 32) {
    volatile float* v = sdata;
    v[tid] = mine = mine + v[tid + 32]; __syncwarp();
    for (int s = 16; s > 0; s >>= 1) {
      float other = v[tid + s]; __syncwarp();
      v[tid] = mine = mine + other; __syncwarp();
    }
  }
  if (tid == 0) out[blockIdx.x] = sdata[0];
}

__device__ unsigned int blocks_done = 0;

// The block that comes last adds what all blocks left behind.
extern "C" __global__ void sum_last_block(float* out, float* partial, const float* x, int n) {
  __shared__ bool am_last;
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) s += x[i];
  s = block_sum(s);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = s;
    __threadfence();
    unsigned ticket = atomicInc(&blocks_done, gridDim.x);
    am_last = ticket == gridDim.x - 1;
  }
  __syncthreads();
  if (am_last) {
    float t = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) t += ((volatile float*)partial)[i];
    __syncthreads();
    t = block_sum(t);
    if (threadIdx.x == 0) {
      *out = t;
      blocks_done = 0;
    }
  }
}

extern "C" __global__ void minmax_redux(int* lo, int* hi, const int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = x[min(i, n - 1)];
  int a = __reduce_min_sync(~0u, v), b = __reduce_max_sync(~0u, v);
  if ((threadIdx.x & 31) == 0) {
    atomicMin(lo, a);
    atomicMax(hi, b);
  }
}

extern "C" __global__ void dot_double(double* out, const double* a, const double* b, int n) {
  __shared__ double s[64];
  double acc = 0;
  for (int i = threadIdx.x; i < n; i += 64) acc = fma(a[i], b[i], acc);
  s[threadIdx.x] = acc;
  __syncthreads();
  for (int w = 32; w; w /= 2) {
    double t = threadIdx.x < w ? s[threadIdx.x + w] : 0.0;
    __syncthreads();
    if (threadIdx.x < w) s[threadIdx.x] += t;
    __syncthreads();
  }
  if (!threadIdx.x) out[0] = sqrt(s[0]) / (1.0 + exp(-s[0]));
}
