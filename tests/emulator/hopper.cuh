// What the tests of asynchronous copies write their kernels with. Each is one instruction.
typedef unsigned u32;
typedef unsigned long long u64;
typedef unsigned short u16;

struct alignas(64) Map { u64 opaque[16]; };
#define TENSOR const __grid_constant__ Map

__device__ u32 in_shared(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ u32 rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ u32 mapa(u32 a, u32 r) {
  u32 b; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(b) : "r"(a), "r"(r)); return b;
}
#define CLUSTER_SYNC()                                                                             \
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;"    \
               ::: "memory")

// --- mbarrier ---------------------------------------------------------------------------
__device__ void init(u64 *b, u32 n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(in_shared(b)), "r"(n) : "memory");
}
#define FENCE_INIT() asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")
#define FENCE_PROXY() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
__device__ void expect(u64 *b, u32 n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(in_shared(b)), "r"(n) : "memory");
}
__device__ void arrive(u64 *b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(in_shared(b)) : "memory");
}
__device__ void arrive_at(u64 *b, u32 r) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
               :: "r"(mapa(in_shared(b), r)) : "memory");
}
__device__ void wait(u64 *b, u32 parity) {
  asm volatile("{\n.reg .pred p;\nW: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, "
               "[%0], %1;\n@!p bra W;\n}" :: "r"(in_shared(b)), "r"(parity) : "memory");
}

// --- copies -----------------------------------------------------------------------------
#define SIGNAL ".mbarrier::complete_tx::bytes"
__device__ void load_2d(void *to, const Map *map, int x, int y, u64 *b) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile" SIGNAL
               " [%0], [%1, {%2, %3}], [%4];"
               :: "r"(in_shared(to)), "l"(map), "r"(x), "r"(y), "r"(in_shared(b)) : "memory");
}
__device__ void multicast_2d(void *to, const Map *map, int x, int y, u64 *b, u16 blocks) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile" SIGNAL ".multicast::cluster"
               " [%0], [%1, {%2, %3}], [%4], %5;"
               :: "r"(in_shared(to)), "l"(map), "r"(x), "r"(y), "r"(in_shared(b)), "h"(blocks)
               : "memory");
}
__device__ void store_2d(const Map *map, int x, int y, const void *from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
               :: "l"(map), "r"(x), "r"(y), "r"(in_shared(from)) : "memory");
}
__device__ void bulk_load(void *to, const void *from, u32 n, u64 *b) {
  asm volatile("cp.async.bulk.shared::cluster.global" SIGNAL " [%0], [%1], %2, [%3];"
               :: "r"(in_shared(to)), "l"(from), "r"(n), "r"(in_shared(b)) : "memory");
}
__device__ void bulk_store(void *to, const void *from, u32 n) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(to), "r"(in_shared(from)), "r"(n) : "memory");
}
__device__ void bulk_to(void *to, const void *from, u32 n, u64 *b, u32 r) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta" SIGNAL " [%0], [%1], %2, [%3];"
               :: "r"(mapa(in_shared(to), r)), "r"(in_shared(from)), "r"(n),
                  "r"(mapa(in_shared(b), r)) : "memory");
}
#define COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define WAIT_READ(n) asm volatile("cp.async.bulk.wait_group.read " #n ";" ::: "memory")
#define WAIT_ALL(n) asm volatile("cp.async.bulk.wait_group " #n ";" ::: "memory")
