// Matrix products: float4 register tiles, WMMA, batches, split K, asynchronous copies, mma by hand.
#include <cuda_fp16.h>
#include <mma.h>
#include <cstdint>

// C[M, N] = A[M, K] · B[K, N]; any M; N in fours, K in eights.
extern "C" __global__ void __launch_bounds__(64)
sgemm_tiled(float* __restrict__ C, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K) {
  constexpr int BM = 32, BN = 32, BK = 8, TM = 4, TN = 4;
  __shared__ __align__(16) float As[BK][BM];
  __shared__ __align__(16) float Bs[BK][BN];
  const int tid = threadIdx.x, tx = tid % 8, ty = tid / 8;
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
    {
      int r = tid / 2, c = tid % 2 * 4;
      float4 a = make_float4(0, 0, 0, 0);
      if (m0 + r < M) a = *reinterpret_cast<const float4*>(&A[size_t(m0 + r) * K + k0 + c]);
      As[c + 0][r] = a.x; As[c + 1][r] = a.y; As[c + 2][r] = a.z; As[c + 3][r] = a.w;
    }
    {
      int r = tid / 8, c = tid % 8 * 4;
      float4 b = make_float4(0, 0, 0, 0);
      if (n0 + c < N) b = *reinterpret_cast<const float4*>(&B[size_t(k0 + r) * N + n0 + c]);
      *reinterpret_cast<float4*>(&Bs[r][c]) = b;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float4 a = *reinterpret_cast<float4*>(&As[k][ty * TM]), b = *reinterpret_cast<float4*>(&Bs[k][tx * TN]);
      float ar[TM] = {a.x, a.y, a.z, a.w}, br[TN] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] += ar[i] * br[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < TM; ++i) {
    int m = m0 + ty * TM + i, n = n0 + tx * TN;
    if (m < M && n < N)
      *reinterpret_cast<float4*>(&C[size_t(m) * N + n]) = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
  }
}

// Two warps make 32 x 16 of C; edges are filled with zeros while staging.
extern "C" __global__ void wmma_staged(float* C, const half* A, const half* B, int M, int N, int K) {
  using namespace nvcuda;
  __shared__ half sa[32][24], sb[16][24];
  __shared__ float sc[2][16][20];
  int m0 = blockIdx.y * 32, n0 = blockIdx.x * 16, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.0f);
  for (int k0 = 0; k0 < K; k0 += 16) {
    for (int i = threadIdx.x; i < 32 * 16; i += 64) {
      int r = i / 16, k = i % 16;
      sa[r][k] = m0 + r < M && k0 + k < K ? A[(m0 + r) * K + k0 + k] : __float2half(0.f);
    }
    for (int i = threadIdx.x; i < 16 * 16; i += 64) {
      int k = i / 16, n = i % 16;
      sb[k][n] = k0 + k < K && n0 + n < N ? B[(k0 + k) * N + n0 + n] : __float2half(0.f);
    }
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::load_matrix_sync(a, &sa[warp * 16][0], 24);
    wmma::load_matrix_sync(b, &sb[0][0], 24);
    wmma::mma_sync(c, a, b, c);
    __syncthreads();
  }
  wmma::store_matrix_sync(&sc[warp][0][0], c, 20, wmma::mem_row_major);
  __syncwarp();
  for (int i = lane; i < 256; i += 32) {
    int m = m0 + warp * 16 + i / 16, n = n0 + i % 16;
    if (m < M && n < N) C[m * N + n] = sc[warp][i / 16][i % 16];
  }
}

// One small product a warp, all of it in registers and shuffles; S up to 8.
template <int S>
__global__ void batched(float* c, const float* a, const float* b, int batch) {
  static_assert(S * S <= 64, "two elements a lane");
  int which = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
  bool mine = which < batch;
  float ra[2] = {}, rb[2] = {};
  for (int h = 0; h < 2; ++h) {
    int e = lane + 32 * h;
    if (mine && e < S * S) { ra[h] = a[which * S * S + e]; rb[h] = b[which * S * S + e]; }
  }
  for (int h = 0; h < 2; ++h) {
    int e = lane + 32 * h, row = e / S, col = e % S;
    float s = 0;
    for (int k = 0; k < S; ++k) {
      int ea = min(row * S + k, S * S - 1), eb = k * S + col;
      float a0 = __shfl_sync(0xffffffff, ra[0], ea), a1 = __shfl_sync(0xffffffff, ra[1], ea);
      float b0 = __shfl_sync(0xffffffff, rb[0], eb), b1 = __shfl_sync(0xffffffff, rb[1], eb);
      s += (ea < 32 ? a0 : a1) * (eb < 32 ? b0 : b1);
    }
    if (mine && e < S * S) c[which * S * S + e] = s;
  }
}
template __global__ void batched<5>(float*, const float*, const float*, int);
template __global__ void batched<7>(float*, const float*, const float*, int);

#ifdef SPACE_FIRST  // which ptxas takes too, and people write
#define LOAD_ACQUIRE "ld.global.acquire.gpu.b32"
#define STORE_RELEASE "st.global.release.gpu.b32"
#else
#define LOAD_ACQUIRE "ld.acquire.gpu.global.b32"
#define STORE_RELEASE "st.release.gpu.global.b32"
#endif

// Slices of K take turns at C, in order: the sum does not depend on luck.
extern "C" __global__ void split_k(float* C, const float* A, const float* B, int M, int N, int K, int* turn) {
  int m = threadIdx.y, n = blockIdx.x * blockDim.x + threadIdx.x;
  int slice = (K + gridDim.z - 1) / gridDim.z, z = blockIdx.z;
  float s = 0;
  if (m < M && n < N)
    for (int k = z * slice; k < min(K, (z + 1) * slice); ++k) s += A[m * K + k] * B[k * N + n];
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    int now;
    do {
      asm volatile(LOAD_ACQUIRE " %0, [%1];" : "=r"(now) : "l"(turn + blockIdx.x) : "memory");
    } while (now != z);
  }
  __syncthreads();
  if (m < M && n < N) {
    if (z) s += C[m * N + n];
    C[m * N + n] = s;
  }
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    int next = z + 1 == gridDim.z ? 0 : z + 1;
    asm volatile("fence.acq_rel.gpu; " STORE_RELEASE " [%0], %1;" ::"l"(turn + blockIdx.x), "r"(next) : "memory");
  }
}

__device__ inline uint32_t smem(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ inline void copy16(void* to, const void* from, bool there) {
  int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(smem(to)), "l"(from), "r"(bytes));
}

// Column sums through two buffers that cp.async fills; rows beyond the end come as zeros.
extern "C" __global__ void column_sums(float* out, const float* x, int rows, int cols) {
  __shared__ __align__(128) float tile[2][8][64];
  int r = threadIdx.x / 16, c = threadIdx.x % 16 * 4, n0 = blockIdx.x * 64, steps = (rows + 7) / 8;
  auto fetch = [&](int step) {
    if (step < steps) {
      bool there = step * 8 + r < rows && n0 + c < cols;
      copy16(&tile[step & 1][r][c], there ? x + (step * 8 + r) * cols + n0 + c : x, there);
    }
    asm volatile("cp.async.commit_group;\n" ::: "memory");
  };
  float s = 0;
  fetch(0);
  for (int step = 0; step < steps; ++step) {
    fetch(step + 1);
    asm volatile("cp.async.wait_group 1;\n" ::: "memory");
    __syncthreads();
    if (threadIdx.x < 64)
      for (int i = 0; i < 8; ++i) s += tile[step & 1][i][threadIdx.x];
    __syncthreads();
  }
  if (threadIdx.x < 64 && n0 + threadIdx.x < cols) out[n0 + threadIdx.x] = s;
}

// One 16 x 8 tile a warp: ldmatrix and mma, A row-major, B given as N x K.
extern "C" __global__ void mma_half(float* C, const half* A, const half* Bt, int N, int K) {
  __shared__ __align__(16) half sa[16 * 16];
  __shared__ __align__(16) half sb[8 * 16];
  int lane = threadIdx.x, n0 = blockIdx.x * 8;
  float d[4] = {0.f, 0.f, 0.f, 0.f};
  for (int k0 = 0; k0 < K; k0 += 16) {
    *(uint4*)&sa[lane / 2 * 16 + lane % 2 * 8] = *(const uint4*)&A[lane / 2 * K + k0 + lane % 2 * 8];
    if (lane < 16) *(uint4*)&sb[lane / 2 * 16 + lane % 2 * 8] = *(const uint4*)&Bt[(n0 + lane / 2) * K + k0 + lane % 2 * 8];
    __syncwarp();
    uint32_t a[4], b[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(smem(&sa[lane % 16 * 16 + lane / 16 * 8])));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(b[0]), "=r"(b[1]) : "r"(smem(&sb[lane % 8 * 16 + lane / 8 % 2 * 8])));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    __syncwarp();
  }
  int r = lane / 4, c = n0 + lane % 4 * 2;
  *(float2*)&C[r * N + c] = make_float2(d[0], d[1]);
  *(float2*)&C[(r + 8) * N + c] = make_float2(d[2], d[3]);
}

extern "C" __global__ void mma_int8(int* C, const int8_t* A, const int8_t* Bt, int N, int K) {
  int lane = threadIdx.x, g = lane >> 2, t = lane & 3, n0 = blockIdx.x * 8;
  int d[4] = {};
  for (int k0 = 0; k0 < K; k0 += 32) {
    auto word = [&](const int8_t* base, int row, int k) { return *reinterpret_cast<const int*>(base + row * K + k0 + k); };
    int a0 = word(A, g, t * 4), a1 = word(A, g + 8, t * 4), a2 = word(A, g, t * 4 + 16), a3 = word(A, g + 8, t * 4 + 16);
    int b0 = word(Bt, n0 + g, t * 4), b1 = word(Bt, n0 + g, t * 4 + 16);
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
  int c = n0 + t * 2;
  C[g * N + c] = d[0];
  C[g * N + c + 1] = d[1];
  C[(g + 8) * N + c] = d[2];
  C[(g + 8) * N + c + 1] = d[3];
}

extern "C" __global__ void dp4a_rows(int* y, const char4* a, const char4* b, int n4) {
  int s = 0;
  for (int i = threadIdx.x; i < n4; i += 32) s = __dp4a(*(const int*)&a[blockIdx.x * n4 + i], *(const int*)&b[i], s);
  s = __reduce_add_sync(0xffffffff, s);
  if (threadIdx.x == 0) y[blockIdx.x] = s;
}
