// A row a block or a warp: softmax, normalisation, matrix times vector.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cmath>

namespace {

struct Max { __device__ float operator()(float a, float b) const { return fmaxf(a, b); } };
struct Sum { __device__ float operator()(float a, float b) const { return a + b; } };

template <class Op>
__device__ float all_reduce(float v, Op op, float identity) {
  __shared__ float parts[33];
#pragma unroll
  for (int mask = 16; mask >= 1; mask >>= 1) v = op(v, __shfl_xor_sync(0xffffffffu, v, mask));
  const int warps = blockDim.x >> 5;
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    float p = threadIdx.x < warps ? parts[threadIdx.x] : identity;
#pragma unroll
    for (int mask = 16; mask >= 1; mask >>= 1) p = op(p, __shfl_xor_sync(0xffffffffu, p, mask));
    if (threadIdx.x == 0) parts[32] = p;
  }
  __syncthreads();
  float r = parts[32];
  __syncthreads();
  return r;
}

}  // namespace

extern "C" __global__ void softmax_rows(float* __restrict__ y, const float* __restrict__ x, int cols) {
  const float* row = x + blockIdx.x * (size_t)cols;
  float m = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) m = fmaxf(m, row[c]);
  m = all_reduce(m, Max{}, -INFINITY);
  float s = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) s += __expf(row[c] - m);
  s = all_reduce(s, Sum{}, 0.f);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) y[blockIdx.x * (size_t)cols + c] = __expf(row[c] - m) / s;
}

struct __align__(8) MD { float m, d; };

__device__ __forceinline__ MD join(MD a, MD b) {
  MD hi = a.m > b.m ? a : b, lo = a.m > b.m ? b : a;
  return {hi.m, hi.d + (lo.d == 0.f ? 0.f : lo.d * expf(lo.m - hi.m))};
}

extern "C" __global__ void softmax_online(float* y, const float* x, int rows, int cols) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  MD r = {-INFINITY, 0.f};
  for (int c = threadIdx.x; c < cols; c += 32) r = join(r, MD{x[row * cols + c], 1.f});
  for (int o = 16; o; o >>= 1) {
    MD t = {__shfl_xor_sync(~0u, r.m, o), __shfl_xor_sync(~0u, r.d, o)};
    r = join(r, t);
  }
  for (int c = threadIdx.x; c < cols; c += 32) y[row * cols + c] = expf(x[row * cols + c] - r.m) / r.d;
}

extern "C" __global__ void layer_norm(__half2* out, const __half2* in, const __half2* gamma, const __half2* beta,
                                      int half_cols, float eps) {
  in += blockIdx.x * half_cols;
  out += blockIdx.x * half_cols;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < half_cols; i += blockDim.x) {
    float2 v = __half22float2(in[i]);
    sum += v.x + v.y;
    squares += v.x * v.x + v.y * v.y;
  }
  sum = all_reduce(sum, Sum(), 0.f);
  squares = all_reduce(squares, Sum(), 0.f);
  float mean = sum / (2 * half_cols);
  float rstd = rsqrtf(squares / (2 * half_cols) - mean * mean + eps);
  for (int i = threadIdx.x; i < half_cols; i += blockDim.x) {
    float2 v = __half22float2(in[i]);
    __half2 n = __floats2half2_rn((v.x - mean) * rstd, (v.y - mean) * rstd);
    out[i] = __hfma2(n, gamma[i], beta[i]);
  }
}

template <typename T>
__global__ void rms_norm(T* out, const T* in, const float* weight, int cols) {
  float acc = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    float v = float(in[blockIdx.x * cols + c]);
    acc += v * v;
  }
  float scale = 1.0f / sqrtf(all_reduce(acc, Sum{}, 0.f) / cols + 1e-6f);
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    out[blockIdx.x * cols + c] = T(float(in[blockIdx.x * cols + c]) * scale * weight[c]);
}
template __global__ void rms_norm<__half>(__half*, const __half*, const float*, int);
template __global__ void rms_norm<__nv_bfloat16>(__nv_bfloat16*, const __nv_bfloat16*, const float*, int);

extern "C" __global__ void gemv(float* y, const float* A, const float* x, int m, int n) {
  const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize, lane = threadIdx.x % warpSize;
  if (warp < m) {
    float s = 0.0f;
    for (int j = lane; j < n; j += warpSize) s = fmaf(A[warp * n + j], __ldg(x + j), s);
    for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffff, s, d);
    if (lane == 0) y[warp] = s;
  }
}

extern "C" __global__ void spmv(double* y, const double* value, const int* column, const int* start, const double* x,
                                int rows) {
  for (int r = blockIdx.x * blockDim.x + threadIdx.x; r < rows; r += gridDim.x * blockDim.x) {
    double dot = 0;
    for (int j = start[r]; j < start[r + 1]; ++j) dot += value[j] * x[column[j]];
    y[r] = dot;
  }
}
