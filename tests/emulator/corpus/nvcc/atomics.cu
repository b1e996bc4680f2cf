// atomics: libcu++'s atomics by scope and order; a queue between blocks, a latch, a semaphore.
#include <cuda/atomic>
#include <cuda/latch>
#include <cuda/semaphore>
#include <cuda/std/atomic>

// Sums and maxima into arrays, a float by compare-and-swap.
extern "C" __global__ void update(int* count, unsigned long long* high, float* low, double* sum,
                                  const int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  cuda::atomic_ref<int, cuda::thread_scope_device> total(*count);
  total.fetch_add(x[i], cuda::memory_order_relaxed);
  cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> top(*high);
  top.fetch_max((unsigned long long)x[i] << 33);
  cuda::atomic_ref<float, cuda::thread_scope_device> least(*low);
  float seen = least.load(cuda::memory_order_relaxed);
  while (seen > (float)x[i] && !least.compare_exchange_weak(seen, (float)x[i])) {}
  cuda::atomic_ref<double, cuda::thread_scope_device> all(*sum);
  all.fetch_add((double)x[i], cuda::memory_order_acq_rel);
}

// Block 0 writes and releases a flag; the others acquire it and read.
extern "C" __global__ void publish(float* out, float* data, int* flag, const float* x) {
  cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
  if (blockIdx.x == 0) {
    data[threadIdx.x] = 2.0f * x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) ready.store(1, cuda::memory_order_release);
    out[threadIdx.x] = x[threadIdx.x];
    return;
  }
  if (threadIdx.x == 0)
    while (ready.load(cuda::memory_order_acquire) == 0) __nanosleep(20);
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = data[threadIdx.x] + blockIdx.x;
}

// The last block to arrive, by an acq_rel count, sums what all have written.
extern "C" __global__ void last_block(float* out, float* parts, unsigned* arrived, const float* x) {
  __shared__ bool last;
  parts[blockIdx.x * blockDim.x + threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x] * 3.0f;
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> count(*arrived);
    last = count.fetch_add(1, cuda::memory_order_acq_rel) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  float sum = 0.0f;
  for (int b = 0; b < gridDim.x; ++b) sum += parts[b * blockDim.x + threadIdx.x];
  out[threadIdx.x] = sum;
}

// Warps of a block: a latch that all warps count down, and a mutex of a semaphore.
extern "C" __global__ void latch(int* out, const int* x) {
  using Latch = cuda::latch<cuda::thread_scope_block>;
  using Mutex = cuda::binary_semaphore<cuda::thread_scope_block>;
  __shared__ alignas(Latch) char bytes[sizeof(Latch) + sizeof(Mutex)];
  auto& done = *reinterpret_cast<Latch*>(bytes);
  auto& mutex = *reinterpret_cast<Mutex*>(bytes + sizeof(Latch));
  __shared__ int squares[64], total;
  if (threadIdx.x == 0) {
    new (&done) Latch(blockDim.x);
    new (&mutex) Mutex(1);
    total = 0;
  }
  __syncthreads();
  squares[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x];
  if (threadIdx.x % 32 == 5) {
    mutex.acquire();
    total += x[threadIdx.x];
    mutex.release();
  }
  done.arrive_and_wait();
  out[threadIdx.x] = squares[blockDim.x - 1 - threadIdx.x] + total;
}
