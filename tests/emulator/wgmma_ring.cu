// C[M, N] = A[M, K] · B[N, K]ᵀ in bf16: a warpgroup fills a ring of slots with swizzled tiles, two
// multiply 64 × BN each. Threads copy what TMA would, so that the ring is what is tried here.
using u16 = unsigned short;
using u64 = unsigned long long;
constexpr int BM = 128, BK = 64, STAGES = 3;

struct Smem {
  u16 A[STAGES][BM * BK];
  u16 B[STAGES][BN * BK];
  u64 full[STAGES], empty[STAGES];
};

__device__ unsigned address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void init(u64* bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(bar)), "r"(count));
}

__device__ void wait(u64* bar, int parity) {
  asm volatile(
      "{ .reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra W; }" ::"r"(
          address(bar)),
      "r"(parity)
      : "memory");
}

__device__ void arrive(u64* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(bar)) : "memory");
}

__device__ bool elected() {
  int yes;
  asm volatile("{ .reg .pred p; elect.sync _|p, -1; selp.b32 %0, 1, 0, p; }" : "=r"(yes));
  return yes;
}

// Rows of 128 bytes, K-major, swizzled by 128 bytes; 1024 bytes from 8 rows to the next.
__device__ u64 descriptor(const void* p) {
  return (u64)(address(p) & 0x3FFFF) >> 4 | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}

__device__ void mma(float (&d)[BN / 2], u64 a, u64 b) { MMA }

extern "C" __global__ void __launch_bounds__(384)
    gemm(const uint4* A, const uint4* B, u16* C, int N, int K) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Smem& s = *reinterpret_cast<Smem*>(raw);
  int group = threadIdx.x / 128, t = threadIdx.x % 128;
  int row = blockIdx.y * BM, column = blockIdx.x * BN, steps = K / BK;
  if (threadIdx.x == 0)
    for (int slot = 0; slot < STAGES; slot++) {
      init(&s.full[slot], 128);
      init(&s.empty[slot], 2);
    }
  __syncthreads();
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    for (int step = 0; step < steps; step++) {
      int slot = step % STAGES, phase = step / STAGES & 1;
      wait(&s.empty[slot], phase ^ 1);
      for (int i = t; i < (BM + BN) * 8; i += 128) {
        bool of_b = i >= BM * 8;
        int r = of_b ? i / 8 - BM : i / 8, c = i % 8;
        const uint4* from = of_b ? B + (column + r) * (K / 8) : A + (row + r) * (K / 8);
        uint4* to = reinterpret_cast<uint4*>(of_b ? s.B[slot] : s.A[slot]);
        to[r * 8 + (c ^ r % 8)] = from[step * (BK / 8) + c];
      }
      asm volatile("fence.proxy.async;" ::: "memory");
      arrive(&s.full[slot]);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  float d[BN / 2];
  for (int i = 0; i < BN / 2; i++) d[i] = 0;
  for (int step = 0; step < steps; step++) {
    int slot = step % STAGES, phase = step / STAGES & 1;
    wait(&s.full[slot], phase);
    u64 a = descriptor(&s.A[slot][(group - 1) * 64 * BK]), b = descriptor(s.B[slot]);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < BK / 16; k++) mma(d, a + 2 * k, b + 2 * k);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    if (step > 0 && t < 32 && elected()) arrive(&s.empty[(step - 1) % STAGES]);
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
  for (int i = 0; i < BN / 2; i += 2) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(d[i + 1]), "f"(d[i]));
    int r = row + (group - 1) * 64 + t / 32 * 16 + i / 2 % 2 * 8 + t % 32 / 4;
    int c = column + i / 4 * 8 + t % 4 * 2;
    *reinterpret_cast<unsigned*>(C + r * N + c) = pair;
  }
}
