// barrier_more: barriers with a completion function and between blocks; pointers with a policy.
#include <cuda/annotated_ptr>
#include <cuda/barrier>

struct Increment {
  int* count;
  __device__ void operator()() noexcept { ++*count; }
};

// The last thread to arrive runs the function, before the others go on.
extern "C" __global__ void completion(int* out) {
  using Barrier = cuda::barrier<cuda::thread_scope_block, Increment>;
  __shared__ int count;
  __shared__ alignas(Barrier) char bytes[sizeof(Barrier)];
  auto& turn = *reinterpret_cast<Barrier*>(bytes);
  if (threadIdx.x == 0) {
    count = 0;
    new (&turn) Barrier(blockDim.x, Increment{&count});
  }
  __syncthreads();
  for (int i = 0; i < 3; ++i) turn.arrive_and_wait();
  out[threadIdx.x] = count;
}

// All blocks meet at a barrier in global memory, which one thread has made before.
using Everywhere = cuda::barrier<cuda::thread_scope_device>;
extern "C" __global__ void make(Everywhere* meeting, int threads) { init(meeting, threads); }
extern "C" __global__ void blocks(float* out, float* shared, Everywhere* meeting, const float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  shared[i] = x[i];
  meeting->arrive_and_wait();
  out[i] = shared[(i + blockDim.x) % n];
}

// Loads that L2 keeps, stores that it does not.
extern "C" __global__ void policies(float* out, const float* x, int n) {
  cuda::annotated_ptr<const float, cuda::access_property::persisting> from{x};
  cuda::annotated_ptr<float, cuda::access_property::streaming> into{out};
  cuda::apply_access_property(x, n * sizeof(float), cuda::access_property::persisting{});
  if (threadIdx.x < n) into[threadIdx.x] = 2.0f * from[threadIdx.x];
}
