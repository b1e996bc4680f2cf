// pipeline: libcu++'s pipelines: of a thread, and of a block with producers and consumers.
#include <cooperative_groups.h>
#include <cuda/pipeline>
namespace cg = cooperative_groups;

// Each thread waits for its own copies: groups of cp.async.
extern "C" __global__ void own(float* out, const float* x, int tiles) {
  __shared__ __align__(16) float4 stage[3][64];
  auto pipe = cuda::make_pipeline();
  const float4* mine = (const float4*)x + blockIdx.x * tiles * 64 + threadIdx.x;
  for (int tile = 0; tile < 2; ++tile) {
    pipe.producer_acquire();
    if (tile < tiles)
      cuda::memcpy_async(&stage[tile][threadIdx.x], mine + tile * 64,
                         cuda::aligned_size_t<16>(16), pipe);
    pipe.producer_commit();
  }
  float sum = 0.0f;
  for (int tile = 0; tile < tiles; ++tile) {
    pipe.producer_acquire();
    if (tile + 2 < tiles)
      cuda::memcpy_async(&stage[(tile + 2) % 3][threadIdx.x], mine + (tile + 2) * 64,
                         cuda::aligned_size_t<16>(16), pipe);
    pipe.producer_commit();
    cuda::pipeline_consumer_wait_prior<2>(pipe);
    float4 v = stage[tile % 3][threadIdx.x];
    sum += v.x + 2 * v.y + 3 * v.z + 4 * v.w;
    pipe.consumer_release();
  }
  out[blockIdx.x * 64 + threadIdx.x] = sum;
}

// The block shares a pipeline of two stages: warp 0 copies, the others sum.
extern "C" __global__ void shared(float* out, const float* x, int tiles) {
  __shared__ __align__(16) float stage[2][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(block, &state, role);
  if (role == cuda::pipeline_role::producer) {
    auto warp = cg::tiled_partition<32>(block);
    for (int tile = 0; tile < tiles; ++tile) {
      pipe.producer_acquire();
      cuda::memcpy_async(warp, stage[tile % 2], x + (blockIdx.x * tiles + tile) * 128,
                         cuda::aligned_size_t<16>(512), pipe);
      pipe.producer_commit();
    }
  } else {
    float sum = 0.0f;
    int me = threadIdx.x - 32;
    for (int tile = 0; tile < tiles; ++tile) {
      pipe.consumer_wait();
      sum += stage[tile % 2][(me * 5) % 128] - stage[tile % 2][127 - me];
      pipe.consumer_release();
    }
    out[blockIdx.x * 96 + me] = sum;
  }
}
