// naive: one thread an element, whatever the strides: what the planner's tests run, and know by
// heart. Sums are fp32, one product after the other.
using T = ELEMENT;

struct Args {
  const T* A;
  const T* B;
  OUT* D;
  long long A_row, A_col, A_batch, B_row, B_col, B_batch, D_row, D_col, D_batch;
  int M, N, K, batch;                                 // N columns of D
};

static_assert(sizeof(Args) == NAIVE_BYTES, "naive.py and naive.cu disagree");
static_assert(sizeof(EPILOGUE) == EPILOGUE_BYTES, "the chain and its record disagree");

__device__ float wide(float x) { return x; }
__device__ float wide(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ float wide(fp16 x) {                       // 2^112 moves the exponent, subnormals too
  const unsigned sign = (unsigned)(x.bits & 0x8000) << 16, rest = (unsigned)(x.bits & 0x7fff) << 13;
  const float finite = __uint_as_float(rest) * __uint_as_float(239u << 23);
  const unsigned bits = rest >= 0x0f800000u ? rest | 0x7f800000u : __float_as_uint(finite);
  return __uint_as_float(bits | sign);
}

template <class TO>
__device__ void store(TO* to, float x) {
  to->bits = (unsigned short)ptx::cvt_rn_x2<TO>(x, x);
}
template <>
__device__ void store<float>(float* to, float x) {
  *to = x;
}

extern "C" __global__ void gemm(const __grid_constant__ Args g, const __grid_constant__ EPILOGUE e) {
  const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  const int n = at % g.N, m = at / g.N % g.M, batch = at / g.N / g.M;
  if (batch >= g.batch) return;
  EPILOGUE epilogue = e;
#if CHAINED
  epilogue.select(batch);
#endif
  float sums[COLUMNS] = {};
  for (int k = 0; k < g.K; ++k)
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i)
      sums[i] += wide(g.A[batch * g.A_batch + m * g.A_row + k * g.A_col]) *
                 wide(g.B[batch * g.B_batch + k * g.B_row + (n + (long long)i * g.N) * g.B_col]);
#if COLUMNS == 2
  const float sum = epilogue(sums[0], sums[1], m, n);
#else
  const float sum = epilogue(sums[0], m, n);
#endif
  store(g.D + batch * g.D_batch + m * g.D_row + n * g.D_col, sum);
}
