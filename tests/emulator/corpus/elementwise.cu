// One element a thread, more or less: activations, hashes, fractals, trees, assertions.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cassert>
#include <cstdint>
#include <cstdio>

extern "C" __global__ void gelu_half2(__half2* y, const __half2* x, int n2) {
  const float k = 0.7978845608f;
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n2) return;
  float2 v = __half22float2(x[i]);
  v.x *= 0.5f * (1.f + tanhf(k * (v.x + 0.044715f * v.x * v.x * v.x)));
  v.y *= 0.5f * (1.f + tanhf(k * (v.y + 0.044715f * v.y * v.y * v.y)));
  y[i] = __float22half2_rn(v);
}

struct alignas(16) Pack { __nv_bfloat162 v[4]; };

extern "C" __global__ void silu_bf16(Pack* y, const Pack* x, int packs) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < packs; i += blockDim.x * gridDim.x) {
    Pack p = x[i];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float lo = __low2float(p.v[j]), hi = __high2float(p.v[j]);
      p.v[j] = __floats2bfloat162_rn(lo / (1.f + __expf(-lo)), hi / (1.f + __expf(-hi)));
    }
    y[i] = p;
  }
}

extern "C" __global__ void axpy_half(half* y, const half* x, half a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (2 * i + 1 < n) {
    half2* y2 = reinterpret_cast<half2*>(y);
    y2[i] = __hfma2(__half2half2(a), reinterpret_cast<const half2*>(x)[i], y2[i]);
  } else if (2 * i < n) {
    y[2 * i] = __hfma(a, x[2 * i], y[2 * i]);
  }
}

struct Counter { uint32_t x, y, z, w; };

__host__ __device__ inline Counter round_once(Counter c, uint2 key) {
  uint64_t p = uint64_t(0xD2511F53u) * c.x, q = uint64_t(0xCD9E8D57u) * c.z;
  return {uint32_t(q >> 32) ^ c.y ^ key.x, uint32_t(q), uint32_t(p >> 32) ^ c.w ^ key.y, uint32_t(p)};
}

extern "C" __global__ void philox(uint4* out, uint2 key, uint64_t offset, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint64_t c64 = offset + i;
  Counter c{uint32_t(c64), uint32_t(c64 >> 32), 0, 0};
  for (int r = 0; r < 10; ++r) {
    c = round_once(c, key);
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  out[i] = make_uint4(c.x, c.y, c.z, c.w);
}

template <int kLimit>
__global__ void mandelbrot(int* steps, int width, int height, float2 origin, float pitch) {
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= width || py >= height) return;
  float cx = origin.x + px * pitch, cy = origin.y + py * pitch, x = 0, y = 0;
  int n = 0;
  while (n < kLimit) {
    float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y);
    if (__fadd_rn(xx, yy) > 4.f) break;
    y = __fadd_rn(__fmul_rn(2.f * x, y), cy);
    x = __fadd_rn(__fadd_rn(xx, -yy), cx);
    ++n;
  }
  steps[py * width + px] = n;
}
template __global__ void mandelbrot<40>(int*, int, int, float2, float);

struct Node { float split; int feature, left, right; };

__device__ __noinline__ bool goes_left(const Node& node, const float* features) {
  return features[node.feature] <= node.split;
}

__device__ __noinline__ float leaf(const Node* tree, const float* features, int* path, int& depth) {
  int at = 0;
  while (tree[at].left >= 0) {
    path[depth++] = at;
    at = goes_left(tree[at], features) ? tree[at].left : tree[at].right;
  }
  return tree[at].split;
}

// Walks a tree with a local copy of the features and remembers the way.
extern "C" __global__ void decide(float* value, int* last, const Node* tree, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float features[4];
    int path[8], depth = 0;
    for (int f = 0; f < 4; ++f) features[f] = x[i * 4 + f];
    value[i] = leaf(tree, features, path, depth);
    last[i] = path[depth - 1];
  }
}

extern "C" __global__ void checked(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(blockDim.x % 32 == 0 && "whole warps");
  if (i < n) {
    assert(in[i] >= 0);
    if (i == 3) printf("element %d of %d is %d, %f, %s\n", i, n, in[i], 0.5, "fine");
    out[i] = __clz(in[i]) + __brev(in[i]) % 7u + in[i] / 3;
  }
}

__device__ int lock = 0;
__device__ double guarded[3];

// One thread a block takes the lock; what it guards is no atomic's business.
extern "C" __global__ void locked_sum(double* out, int* turns, const double* x, int n) {
  if (threadIdx.x == 0) {
    double s = 0;
    for (int i = blockIdx.x; i < n; i += gridDim.x) s += x[i];
    while (atomicCAS(&lock, 0, 1) != 0) {}
    __threadfence();
    volatile double* g = guarded;
    g[0] = g[0] + s;
    g[1] = g[1] + 1;
    out[0] = g[0];
    *turns = (int)g[1];
    __threadfence();
    atomicExch(&lock, 0);
  }
}

// Atomics that the hardware has not, as the programming guide writes them: a plain load guesses.
__device__ double add_by_cas(double* at, double value) {
  unsigned long long* bits = (unsigned long long*)at;
  unsigned long long old = *bits, assumed;
  do {
    assumed = old;
    old = atomicCAS(bits, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
  } while (assumed != old);
  return __longlong_as_double(old);
}

__device__ void max_by_cas(float* at, float value) {
  int* bits = (int*)at;
  int old = *bits;
  while (value > __int_as_float(old)) {
    const int assumed = old;
    old = atomicCAS(bits, assumed, __float_as_int(value));
    if (old == assumed) return;
  }
}

extern "C" __global__ void sum_and_max(double* sum, float* top, const float* x, int n) {
  __shared__ float most;
  if (threadIdx.x == 0) most = -1e30f;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    add_by_cas(sum, x[i]);
    max_by_cas(&most, x[i]);
  }
  __syncthreads();
  if (threadIdx.x == 0) max_by_cas(top, most);
}
