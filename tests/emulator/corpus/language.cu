// What C++ and CUDA allow and kernels seldom do: each against plain arithmetic in test_language.py.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda/atomic>

// --- variables that begin with addresses ---

__device__ int numbers[4] = {10, 20, 30, 40};
__device__ int* middle = numbers + 2;
__constant__ int* ends[2] = {numbers, &numbers[3]};
struct Node {
  int value;
  Node* next;
};
__device__ Node last[2] = {{4, nullptr}, {5, nullptr}};
__device__ Node first[2] = {{6, &last[1]}, {7, &last[0]}};
__device__ const char* names[3] = {"ab", "cde", "f"};
__constant__ float table[3][5] = {{1, 2, 3, 4, 5}, {6, 7, 8}, {.5f}};
__device__ int plus_one(int x) { return x + 1; }
__device__ int twice(int x) { return x * 2; }
__device__ int (*functions[2])(int) = {plus_one, twice};

extern "C" __global__ void addresses(int* out) {
  const int i = threadIdx.x;
  int length = 0;
  for (const char* name = names[i % 3]; name[length]; ++length) {}
  out[i] = *middle + *ends[i & 1] + first[i & 1].next->value * 1000 + length * 10000 +
           (int)(table[i % 3][i % 5] * 2) * 100000;
}

extern "C" __global__ void through_a_pointer(int* out) {
  out[threadIdx.x] = functions[threadIdx.x & 1](threadIdx.x);
}

// --- 128-bit integers ---

extern "C" __global__ void wide(unsigned __int128* out, const long long* x, __int128 third) {
  const int i = threadIdx.x;
  const __int128 a = (__int128)x[2 * i] * x[2 * i + 1] + third;
  const __int128 b = x[2 * i] / 1000 + 1;
  const unsigned __int128 u = a;
  out += 8 * i;
  out[0] = a, out[1] = a / b, out[2] = a % b, out[3] = u / (unsigned)(i + 3);
  out[4] = u % ((u >> 50) + 1), out[5] = a >> (i + 60), out[6] = u * u, out[7] = a < b;
}

// --- layouts ---

struct Mixed {
  char a;
  double b;
  int c[3];
  short d;
};
union Pun {
  float number;
  unsigned word;
  struct {
    unsigned mantissa : 23, exponent : 8, sign : 1;
  } parts;
};
struct Fields {
  long long a : 40;
  unsigned long long b : 24;
  int c : 1;
  unsigned d : 31;
};

extern "C" __global__ void layouts(long long* out, const float* x, const long long* y, Mixed m) {
  const int i = threadIdx.x;
  Pun pun;
  pun.number = x[i];
  pun.parts.exponent ^= 5, pun.parts.sign = !pun.parts.sign;
  Fields f;
  f.a = y[i], f.b = y[i] >> 17, f.c = i, f.d = y[i] >> 3;
  out[i] = pun.word + f.a * 3 + f.b * 5 + f.c * 7 + f.d + (long long)(m.a + m.b * 2) + m.c[i % 3] + m.d;
}

// --- atomics of every type, and through pointers to any memory ---

extern "C" __global__ void atomics(int* a, unsigned* b, unsigned long long* c, float* d, double* e,
                                   long long* f, __half* h, __half2* h2) {
  const int t = threadIdx.x;
  atomicAdd(a, t), atomicSub(a + 1, t), atomicMin(a + 2, t - 16), atomicMax(a + 3, t - 16);
  atomicAnd(a + 4, ~(1 << t)), atomicOr(a + 5, 1 << t), atomicXor(a + 6, t * t);
  atomicExch(a + 7, 9), atomicCAS(a + 8, 0, 77);
  cuda::atomic_ref<int, cuda::thread_scope_device>(a[9]).fetch_add(t, cuda::memory_order_relaxed);
  atomicInc(b, 10), atomicDec(b + 1, 20), atomicMin(b + 2, t + 3u), atomicMax(b + 3, t * 3u);
  atomicAdd(c, (1ull << 40) + t), atomicMin(c + 1, (unsigned long long)-t);
  atomicMax(c + 2, (1ull << 50) * t), atomicAnd(c + 3, ~(1ull << (t + 20)));
  atomicOr(c + 4, 1ull << (t + 20)), atomicXor(c + 5, 1ull * t << 33);
  atomicCAS(c + 6, 0ull, 1ull << 45), atomicExch(c + 7, 8ull);
  atomicAdd(d, t * .5f), atomicAdd(e, t * .25);
  atomicMin(f, -(1ll << 40) * t), atomicMax(f + 1, (1ll << 40) * t);
  atomicAdd(h, __float2half(t)), atomicAdd(h2, __floats2half2_rn(t, 1));
}

extern "C" __global__ void anywhere(int* out) {
  __shared__ int s[32];
  int mine[2] = {1, 2};
  const int i = threadIdx.x;
  s[i] = 30;
  __syncwarp();
  int* where = i % 3 == 0 ? out + i : i % 3 == 1 ? s + i : mine + (i & 1);
  const int before = atomicAdd(where, i);
  __syncwarp();
  const int kind = __isGlobal(where) + __isShared(where) * 2 + __isLocal(where) * 4;
  out[i] = before * 1000 + *where * 10 + kind;
}

// --- printf ---

extern "C" __global__ void prints() {
  printf("%d|%5d|%-5d|%05d|%+d|% d|%i|%u|%o|%x|%X|%#x|%#o\n", -1, 42, 42, 42, 42, 42, 7,
         4000000000u, 8, 255, 255, 255, 8);
  printf("%lld|%llu|%ld|%hd|%hhd|%lx|%zu\n", -1LL, 18446744073709551615ULL, -5L, (short)-3,
         (signed char)-4, 255L, (size_t)9);
  printf("%f|%.2f|%10.3f|%e|%.3E|%g|%G|%a|%A\n", 1.5, 2.345, 3.14159, 12345.678, 0.00012, 1e-5,
         1e20, 1.0, -0.15625f);
  printf("%c|%5c|%-3c|%s|%10s|%-6s|%.2s|%%\n", 'A', 'B', 'C', "hi", "right", "left", "trunc");
  printf("%*d|%-*d|%.*f|%*d|%.*f\n", 6, 42, 5, 7, 3, 2.71828, -4, 1, -1, 0.5);
  printf("%p|%c%d%c%lld%s", (void*)0x1234, 'x', 1, 'y', 2ll, "\n");
}

// --- functions ---

struct Vector {
  float x, y, z;
  int n[5];
};
__device__ __noinline__ Vector moved(Vector a, const Vector& b, int n) {
  a.x += b.x * n, a.y -= b.z, a.n[n % 5] += b.n[(n + 1) % 5];
  return a;
}
template <int... I>
__device__ int pick(int i) {
  const int all[] = {I...};
  return all[i % sizeof...(I)];
}
template <class F>
__device__ int twice_applied(F f, int x) {
  return f(f(x));
}

extern "C" __global__ void functions_of_all_kinds(float* out, const float* x, int c) {
  const int i = threadIdx.x;
  const Vector a = {x[i], x[i + 1], x[i + 2], {1, 2, 3, 4, 5}};
  const Vector b = {x[i + 3], 1, 2, {i, i * 2, i * 3, i * 4, i * 5}};
  const Vector r = moved(a, b, i);
  out[i] = r.x + r.y * 2 + r.z * 3 + r.n[i % 5] + r.n[(i + 2) % 5] + pick<9, 8, 7>(i) +
           twice_applied([=](int v) { return v * c + i; }, i);
}

extern "C" __global__ void jumps(int* out, const int* x) {
  const int i = threadIdx.x;
  volatile int a[4];
  int s = 0, j = 0;
  a[0] = x[i], a[1] = a[0] + 1, a[2] = a[1] * 2, a[3] = a[2] - a[0];
again:
  s += a[j & 3];
  if (s & 1) goto skip;
  s += 10;
skip:
  if (++j < 9 + i % 3) goto again;
  switch (x[i] & 15) {
    case 0: s *= 3; break;
    case 1: case 2: s ^= 77;
    case 3: s -= 5; break;
    case 4: s /= 3; break;
    case 5: s %= 7; break;
    case 9: s <<= 2;
    default: s += i;
  }
  out[i] = s;
}

// --- pairs of 16-bit floats ---

extern "C" __global__ void pairs(__half2* out, __nv_bfloat162* wide, const float2* x) {
  const int i = threadIdx.x;
  const __half2 a = __float22half2_rn(x[i]), b = __lows2half2(a, __hneg2(a));
  out[i] = __hmax2(__hfma2(a, a, b), __hmul2_sat(a, b));
  const __nv_bfloat162 c = __float22bfloat162_rn(x[i]), d = __highs2bfloat162(c, c);
  wide[i] = __hmin2(__hfma2(c, c, d), __hadd2(c, d));
}
