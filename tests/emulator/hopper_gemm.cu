// C[M, N] = A[M, K] · B[N, K]ᵀ, fp16 with fp32 sums. A warpgroup's thread fills a ring by TMA, two
// warpgroups multiply 64 × BN each; the blocks of a cluster lie along M and share their parts of B
// by multicast. Tiles of C go out by TMA, 32 columns at a time.
#include "hopper.cuh"
constexpr int BM = 128, BK = 64, STAGES = 3, PART = BN / PEERS;

struct Smem {
  alignas(1024) u16 A[STAGES][BM * BK];
  alignas(1024) u16 B[STAGES][BN * BK];
  alignas(1024) float C[2][64 * 32];
  u64 full[STAGES], empty[STAGES];
};

// Rows of 128 bytes, K-major, swizzled by 128 bytes; 1024 bytes from 8 rows to the next.
__device__ u64 descriptor(const void *p) {
  return (u64)(in_shared(p) & 0x3FFFF) >> 4 | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}
__device__ void mma(float (&d)[BN / 2], u64 a, u64 b) { MMA }

extern "C" __global__ void __launch_bounds__(384)
    gemm(TENSOR A, TENSOR B, TENSOR C, int K) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Smem &s = *reinterpret_cast<Smem *>(raw);
  int t = threadIdx.x, group = t / 128, steps = K / BK;
  int row = blockIdx.y * BM, column = blockIdx.x * BN;
  u32 me = rank();
  if (t == 0) {
    for (int q = 0; q < STAGES; q++) { init(&s.full[q], 1); init(&s.empty[q], 2 * PEERS); }
    /*inited*/ FENCE_INIT(); /**/
  }
  /*known*/ CLUSTER_SYNC(); /**/
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (t == 0)
      for (int step = 0; step < steps; step++) {
        int q = step % STAGES, phase = step / STAGES & 1;
        /*empty*/ wait(&s.empty[q], phase ^ 1); /**/
        expect(&s.full[q], (BM + BN) * BK * 2);
        load_2d(s.A[q], &A, step * BK, row, &s.full[q]);
        u16 *part = &s.B[q][me * PART * BK];
        int first = column + me * PART;
        if (PEERS > 1) multicast_2d(part, &B, step * BK, first, &s.full[q], (1 << PEERS) - 1);
        else load_2d(part, &B, step * BK, first, &s.full[q]);
      }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[BN / 2];
    for (int i = 0; i < BN / 2; i++) d[i] = 0;
    for (int step = 0; step < steps; step++) {
      int q = step % STAGES, phase = step / STAGES & 1;
      /*full*/ wait(&s.full[q], phase); /**/
      u64 a = descriptor(&s.A[q][(group - 1) * 64 * BK]), b = descriptor(s.B[q]);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int k = 0; k < BK / 16; k++) mma(d, a + 2 * k, b + 2 * k);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      /*done*/ asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); /**/
      /*free*/ if (t % 128 < PEERS) arrive_at(&s.empty[q], t % 128); /**/
    }
    float *tile = s.C[group - 1];
    int warp = t / 32 % 4, lane = t % 32;
#pragma unroll
    for (int part = 0; part < BN / 32; part++) {
#pragma unroll
      for (int i = 0; i < 16; i++)
        tile[(warp * 16 + i / 2 % 2 * 8 + lane / 4) * 32 + i / 4 * 8 + lane % 4 * 2 + i % 2] =
            d[part * 16 + i];
      /*proxy*/ FENCE_PROXY(); /**/
      asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
      if (t % 128 == 0) {
        store_2d(&C, column + part * 32, row + (group - 1) * 64, tile);
        COMMIT();
        /*read*/ WAIT_READ(0); /**/
      }
      asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
    }
  }
  /*last*/ CLUSTER_SYNC(); /**/
}
