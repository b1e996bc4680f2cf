// Prefix sums of one block and of warps.

template <class T, int N>
__global__ void hillis_steele(T* out, const T* in, int n) {
  __shared__ T buf[2][N];
  int t = threadIdx.x, cur = 0;
  buf[0][t] = t < n ? in[t] : T(0);
  __syncthreads();
  for (int d = 1; d < N; d *= 2) {
    buf[cur ^ 1][t] = t >= d ? buf[cur][t] + buf[cur][t - d] : buf[cur][t];
    cur ^= 1;
    __syncthreads();
  }
  if (t < n) out[t] = buf[cur][t];
}
template __global__ void hillis_steele<int, 256>(int*, const int*, int);
template __global__ void hillis_steele<float, 128>(float*, const float*, int);

#define PAD(i) ((i) + ((i) >> 5))

// Up-sweep, down-sweep; two elements a thread, exclusive.
extern "C" __global__ void blelloch(int* out, const int* in, int n) {
  extern __shared__ int tmp[];
  const int t = threadIdx.x, len = 2 * blockDim.x;
  tmp[PAD(2 * t)] = 2 * t < n ? in[2 * t] : 0;
  tmp[PAD(2 * t + 1)] = 2 * t + 1 < n ? in[2 * t + 1] : 0;
  int offset = 1;
  for (int d = len >> 1; d > 0; d >>= 1) {
    __syncthreads();
    if (t < d) {
      int ai = offset * (2 * t + 1) - 1, bi = offset * (2 * t + 2) - 1;
      tmp[PAD(bi)] += tmp[PAD(ai)];
    }
    offset *= 2;
  }
  if (t == 0) tmp[PAD(len - 1)] = 0;
  for (int d = 1; d < len; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (t < d) {
      int ai = offset * (2 * t + 1) - 1, bi = offset * (2 * t + 2) - 1;
      int was = tmp[PAD(ai)];
      tmp[PAD(ai)] = tmp[PAD(bi)];
      tmp[PAD(bi)] += was;
    }
  }
  __syncthreads();
  if (2 * t < n) out[2 * t] = tmp[PAD(2 * t)];
  if (2 * t + 1 < n) out[2 * t + 1] = tmp[PAD(2 * t + 1)];
}

__device__ int inclusive(int v) {
  const unsigned lane = threadIdx.x & 31u;
#pragma unroll
  for (int i = 1; i <= 16; i <<= 1) {
    int n = __shfl_up_sync(0xffffffff, v, i);
    if (lane >= i) v += n;
  }
  return v;
}

// Blocks scan in the order of their tickets: each waits for the sum of the one before it.
extern "C" __global__ void chained(int* out, const int* in, int n, unsigned* ticket, volatile int* sums,
                                   volatile int* ready) {
  __shared__ int warp_total[8];
  __shared__ int tile, before;
  if (threadIdx.x == 0) tile = atomicAdd(ticket, 1u);
  __syncthreads();
  int i = tile * blockDim.x + threadIdx.x;
  int v = inclusive(i < n ? in[i] : 0);
  int w = threadIdx.x >> 5;
  if ((threadIdx.x & 31) == 31) warp_total[w] = v;
  __syncthreads();
  if (w == 0) {
    int s = threadIdx.x < blockDim.x / 32 ? warp_total[threadIdx.x] : 0;
    s = inclusive(s);
    if (threadIdx.x < blockDim.x / 32) warp_total[threadIdx.x] = s;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    if (tile > 0) {
      while (ready[tile - 1] == 0) {}
      __threadfence();
      sum = sums[tile - 1];
    }
    before = sum;
    sums[tile] = sum + warp_total[blockDim.x / 32 - 1];
    __threadfence();
    ready[tile] = 1;
  }
  __syncthreads();
  if (i < n) out[i] = v + before + (w ? warp_total[w - 1] : 0);
}
