// Who may touch what after whom: kernels that order only some of their threads, right and wrong.
// FENCE, SYNC: 1 for the right kernel, 0 without that fence or barrier.
#define BAR(id, threads) asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(threads) : "memory")

extern "C" __global__ void reuse(float* out, const float* in, int n) {
  __shared__ float bias[64];
  int t = threadIdx.x;
  if (t < 64) bias[t] = in[t];
  __syncthreads();
  if (t >= 64) {  // a warp that never touches the bias
    out[64 + t] = 1;
    return;
  }
  float b = bias[t] + bias[63 - t];
  BAR(1, 64);
  bias[t] = b * n;
  BAR(1, 64);
  out[t] = bias[63 - t];
}

extern "C" __global__ void teams(int* work, int* out, const int* in, int rounds) {
  int team = threadIdx.x / 64, l = threadIdx.x % 64, sum = 0;
  int* mine = work + (blockIdx.x * 3 + team) * 64;
  for (int r = 0; r < rounds + team; r++) {
    mine[l] = in[r * 64 + l];
    BAR(team + 1, 64);
    sum += mine[63 - l] + mine[0];
    if (SYNC) BAR(team + 1, 64);
  }
  out[blockIdx.x * 192 + threadIdx.x] = sum;
}

extern "C" __global__ void readers_of_two_blocks(int* g, volatile int* flag, int* out) {
  int t = threadIdx.x;
  out[blockIdx.x * 32 + t] = g[t];
  __syncwarp();
  if (FENCE) __threadfence();
  __syncwarp();
  if (blockIdx.x == 0) {
    if (t == 0) *flag = 1;
  } else {
    if (t == 0)
      while (*flag == 0) {}
    __syncwarp();
    __threadfence();
    g[t] = 0;
  }
}

extern "C" __global__ void old_periods(int* out, const int* in) {
  __shared__ int s[1], pairs[64];
  int w = threadIdx.x / 32, l = threadIdx.x % 32;
  if (threadIdx.x == 0) s[0] = in[0];
  __syncthreads();
  if (w >= 2) {  // these warps are a barrier ahead when all read s
    pairs[threadIdx.x - 64] = in[l];
    BAR(2, 64);
    pairs[127 - threadIdx.x] += 1;
  }
  __syncwarp();
  int v = s[0];
  __syncthreads();
  if (w == 1) s[0] = in[1];
  __syncthreads();
  out[threadIdx.x] = v + s[0] + pairs[l];
}

struct Best {
  double value;
  int index;  // four bytes of padding follow, which the compiler copies as bytes
};
extern "C" __global__ void argmax(int* out, const double* in) {
  __shared__ Best s[128];
  int t = threadIdx.x;
  s[t] = Best{in[t], t};
  __syncthreads();
  for (int d = 64; d; d /= 2) {
    if (t < d && s[t + d].value > s[t].value) s[t] = s[t + d];
    __syncthreads();
  }
  if (t == 0) out[0] = s[0].index;
}

extern "C" __global__ void many_shuffles(int* out, const int* in, int n) {
  __shared__ int s[32];
  int l = threadIdx.x, a = 0;
  s[l] = in[l];
  __syncwarp();
  for (int i = 0; i < n; i++) a += __shfl_xor_sync(-1, s[(l + i) & 31], 1);
  int y = __shfl_xor_sync(-1, s[31 - l], 2);
  s[l] = y + a;
  out[l] = s[l];
}

// The writers have no fence behind their data, though the readers have one, and had one before.
extern "C" __global__ void publish(int* x, volatile int* flag, int* out) {
  __threadfence();
  if (blockIdx.x == 0) {
    x[threadIdx.x] = 7;
    if (FENCE) __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *flag = 1;
  } else {
    if (threadIdx.x == 0)
      while (*flag == 0) {}
    __threadfence();
    __syncthreads();
    out[threadIdx.x] = x[threadIdx.x];
  }
}

// Thread 0 counts the block in: what the other warps wrote must lie before that.
extern "C" __global__ void last_block(float* part, int* count, float* out) {
  __shared__ bool last;
  int t = threadIdx.x;
  part[blockIdx.x * 128 + t] = t;
  if (SYNC) __syncthreads();
  if (t == 0) {
    if (FENCE) __threadfence();
    last = atomicAdd(count, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  float sum = 0;
  for (int b = 0; b < gridDim.x; b++) sum += part[b * 128 + t];
  out[t] = sum;
}

extern "C" __global__ void in_turns(float* out, const float* in, int* turn) {
  int t = threadIdx.x, z = blockIdx.x;
  if (t == 0)
    while (atomicAdd(turn, 0) != z) {}
  __threadfence();
  __syncthreads();
  out[t] += in[z * 64 + t];
  if (FENCE) __threadfence();
  if (SYNC) __syncthreads();
  if (t == 0) atomicExch(turn, z + 1);
}

// A block overwrites what its neighbour may not have read yet.
extern "C" __global__ void in_place(float* to, const float* from, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  float left = i > 0 ? from[i - 1] : 0, right = i < n - 1 ? from[i + 1] : 0, middle = from[i];
  __syncthreads();
  to[i] = 0.25f * left + 0.5f * middle + 0.25f * right;
}
