// Bugs as they happen. A marker names what must be found at its line; `FOUND a|b` lets either be.
#include <cassert>
#include <cstdint>
#include <cuda_fp16.h>

#define SMEM(p) ((uint32_t)__cvta_generic_to_shared(p))

extern "C" __global__ void no_barrier_before_reading(float* out, const float* in) {
  __shared__ float s[128];
  s[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = s[127 - threadIdx.x];  // FOUND race no_barrier_before_reading
}

extern "C" __global__ void no_barrier_before_reuse(float* out, const float* in, int tiles) {
  __shared__ float tile[64];
  float sum = 0;
  for (int t = 0; t < tiles; ++t) {
    tile[threadIdx.x] = in[t * 64 + threadIdx.x];  // FOUND race no_barrier_before_reuse
    __syncthreads();
    for (int i = 0; i < 64; ++i) sum += tile[i];
  }
  out[threadIdx.x] = sum;
}

extern "C" __global__ void warp_synchronous(float* out, const float* in) {
  __shared__ float s[64];
  int t = threadIdx.x;
  s[t] = in[t];
  s[t + 32] = in[t + 32];
  for (int d = 32; d > 0; d >>= 1) s[t] += s[t + d];  // FOUND race warp_synchronous
  if (t == 0) *out = s[0];
}

extern "C" __global__ void volatile_but_not_synchronised(float* out, const float* in) {
  __shared__ float s[64];
  volatile float* v = s;
  int t = threadIdx.x;
  v[t] = in[t];
  v[t + 32] = in[t + 32];
  for (int d = 32; d > 0; d >>= 1) v[t] += v[t + d];  // FOUND race volatile_but_not_synchronised
  if (t == 0) *out = v[0];
}

extern "C" __global__ void one_too_many(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = 2 * in[i];  // FOUND out-of-bounds one_too_many
}

extern "C" __global__ void halo_forgotten(float* out, const float* in) {
  __shared__ float s[64];
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x + 1];  // FOUND out-of-bounds halo_forgotten
}

extern "C" __global__ void odd_rows_of_float4(float4* out, const float* in, int pitch) {
  out[threadIdx.x] = *(const float4*)(in + threadIdx.x * pitch);  // FOUND misaligned odd_rows_of_float4
}

extern "C" __global__ void counters_not_cleared(int* bins, const int* in) {
  __shared__ int local[32];
  atomicAdd(&local[in[threadIdx.x] & 31], 1);  // FOUND uninitialised counters_not_cleared
  __syncthreads();
  if (threadIdx.x < 32) atomicAdd(bins + threadIdx.x, local[threadIdx.x]);
}

extern "C" __global__ void tail_forgotten(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (4 * i + 3 < n)
    for (int j = 0; j < 4; ++j) out[4 * i + j] = in[4 * i + j];  // FOUND unwritten tail_forgotten
}

extern "C" __global__ void sum_without_atomics(float* total, const float* in) {
  float v = in[blockIdx.x * 32 + threadIdx.x];
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
  if (threadIdx.x == 0) *total += v;  // FOUND race sum_without_atomics
}

__device__ unsigned int arrived;

extern "C" __global__ void last_block_without_fence(float* out, float* part, const float* in) {
  part[blockIdx.x] = in[blockIdx.x] * 2;
  unsigned ticket = atomicAdd(&arrived, 1u);
  if (ticket == gridDim.x - 1) {
    float s = 0;
    for (int b = 0; b < gridDim.x; ++b) s += part[b];  // FOUND race last_block_without_fence
    *out = s;
  }
}

extern "C" __global__ void barrier_in_a_branch(float* out, const float* in, int n) {
  __shared__ float s[64];
  int i = threadIdx.x;
  if (i < n) {
    s[i] = in[i];
    __syncthreads();  // FOUND divergent-barrier barrier_in_a_branch
    out[i] = s[n - 1 - i];
  }
}

extern "C" __global__ void two_barriers_for_one(float* out, const float* in) {
  __shared__ float s[64];
  int i = threadIdx.x;
  if (i % 2) {
    s[i] = in[i];
    __syncthreads();  // FOUND divergent-barrier two_barriers_for_one
    out[i] = s[i ^ 1];
  } else {
    s[i] = -in[i];
    __syncthreads();
    out[i] = s[i ^ 1] * 2;
  }
}

extern "C" __global__ void barrier_that_half_a_warp_skips(float* out, const float* in, int n) {
  __shared__ float s[64];
  int i = threadIdx.x;
  s[i] = in[i];
  if (i < n) {
    s[i] *= 2;
    __syncthreads();
    s[i] += 1;
  }
  __syncthreads();  // FOUND divergent-barrier barrier_that_half_a_warp_skips
  out[i] = s[63 - i];
}

extern "C" __global__ void some_warps_never_come(float* out, const float* in) {
  __shared__ float s[96];
  s[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 64) asm volatile("bar.sync 1, 96;" ::: "memory");  // FOUND deadlock some_warps_never_come
  out[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void nobody_sets_the_flag(float* out, volatile int* flag) {
  while (*flag == 0) {}  // FOUND endless-loop nobody_sets_the_flag
  out[threadIdx.x] = 1;
}

extern "C" __global__ void copy_not_waited_for(float4* out, const float4* in) {
  __shared__ float4 s[32];
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(SMEM(s + threadIdx.x)), "l"(in + threadIdx.x));
  asm volatile("cp.async.commit_group;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];  // FOUND async-read copy_not_waited_for
  asm volatile("cp.async.wait_all;" ::: "memory");
}

extern "C" __global__ void one_group_too_many(float* out, const float* in, int steps) {
  __shared__ __align__(16) float s[2][128];
  auto fetch = [&](int t) {
    if (t < steps)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SMEM(&s[t % 2][threadIdx.x * 4])),
                   "l"(in + t * 128 + threadIdx.x * 4));
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  float sum = 0;
  fetch(0);
  for (int t = 0; t < steps; ++t) {
    fetch(t + 1);
    asm volatile("cp.async.wait_group 2;" ::: "memory");
    __syncthreads();
    sum += s[t % 2][127 - threadIdx.x];  // FOUND async-read one_group_too_many
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}

extern "C" __global__ void copied_over_what_is_read(float* out, const float* in, int steps) {
  __shared__ __align__(16) float s[2][256];
  auto fetch = [&](int t) {
    if (t < steps)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SMEM(&s[t % 2][threadIdx.x * 4])), "l"(in + t * 256 + threadIdx.x * 4));
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  float sum = 0;
  fetch(0);
  for (int t = 0; t < steps; ++t) {
    fetch(t + 1);  // FOUND race copied_over_what_is_read
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    sum += s[t % 2][255 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

extern "C" __global__ void everybody_writes_it(int* out, const int* in) {
  __shared__ int best;
  if (threadIdx.x == 0) best = -1;
  __syncwarp();
  if (in[threadIdx.x] > 3) best = threadIdx.x;  // FOUND overlap|race everybody_writes_it
  __syncwarp();
  if (threadIdx.x == 0) *out = best;
}

extern "C" __global__ void global_winner(int* out, const int* in) {
  if (in[threadIdx.x] > 3) out[0] = threadIdx.x;  // FOUND overlap|race global_winner
}

extern "C" __global__ void shuffle_from_the_absent(float* out, const float* in, int n) {
  int i = threadIdx.x;
  if (i < n) {
    float v = in[i];
    v += __shfl_down_sync(__activemask(), v, 4);  // FOUND inactive-lane shuffle_from_the_absent
    out[i] = v;
  }
}

extern "C" __global__ void full_mask_in_a_branch(float* out, const float* in, int n) {
  int i = threadIdx.x;
  if (i < n) {
    out[i] = __shfl_xor_sync(0xffffffffu, in[i], 1);  // FOUND inactive-lane full_mask_in_a_branch
  } else {
    out[i] = 0;
  }
}

extern "C" __global__ void assertion(float* out, const float* in, int n) {
  int i = threadIdx.x;
  assert(in[i] > 0);  // FOUND assert|trap assertion
  out[i] = logf(in[i]);
}

extern "C" __global__ void dynamic_size_in_elements(float* out, const float* in) {
  extern __shared__ float buffer[];
  buffer[threadIdx.x] = in[threadIdx.x];  // FOUND out-of-bounds dynamic_size_in_elements
  __syncthreads();
  out[threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
}

// Both carve from the same bytes, as `extern __shared__` always starts at the same place.
extern "C" __global__ void two_names_for_one_place(float* out, const float* in) {
  extern __shared__ float a[];
  extern __shared__ int b[];
  a[threadIdx.x] = in[threadIdx.x];
  b[63 - threadIdx.x] = threadIdx.x;  // FOUND race two_names_for_one_place
  __syncthreads();
  out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}

extern "C" __global__ void in_place_stencil(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) {
    float l = x[i - 1], r = x[i + 1];
    x[i] = 0.5f * (l + r);  // FOUND race in_place_stencil
  }
}

extern "C" __global__ void lock_without_fence(double* sum, int* lock) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1)) {}
    *sum += 1;  // FOUND race lock_without_fence
    atomicExch(lock, 0);
  }
}

extern "C" __global__ void uninitialised_local(float* out, int n) {
  float a[8];
  for (int i = 0; i < n; ++i) a[i] = i;
  out[threadIdx.x] = a[threadIdx.x & 7];  // FOUND uninitialised uninitialised_local
}

extern "C" __global__ void output_read_before_written(float* out, const float* in) {
  out[threadIdx.x] += in[threadIdx.x];  // FOUND uninitialised output_read_before_written
}

extern "C" __global__ void wait_in_the_wrong_order(int* out, volatile int* turn) {
  if (threadIdx.x == 0) {
    while (*turn != gridDim.x - 1 - blockIdx.x + 1) {}  // FOUND endless-loop wait_in_the_wrong_order
    out[blockIdx.x] = blockIdx.x;
    __threadfence();
    *turn = *turn + 1;
  }
}
