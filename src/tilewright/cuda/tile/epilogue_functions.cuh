#pragma once
#include "ptx/ex2.cuh"
#include "ptx/rcp.cuh"
// Epilogues without a second operand. What each function may err by, gemm/activations.py says; all
// let NaN through, and their values at infinity are PyTorch's (-inf gives NaN for Silu and Gelu).
namespace tile {

constexpr float LOG2_E = 1.44269504f;

struct alignas(8) Alpha {
  float alpha;
  int unused;
  __device__ __forceinline__ void select(int) {}
  __device__ __forceinline__ float operator()(float x, int, int) const { return x * alpha; }
};

struct Relu {                                         // not fmaxf, which would drop a NaN
  __device__ __forceinline__ static float of(float x) { return x < 0.f ? 0.f : x; }
};

struct Sigmoid {
  __device__ __forceinline__ static float of(float x) {
    return ptx::rcp_approx_ftz(1.f + ptx::ex2_approx_ftz(-LOG2_E * x));
  }
};

struct Tanh {
  __device__ __forceinline__ static float of(float x) { return tanhf(x); }
};

struct Silu {
  __device__ __forceinline__ static float of(float x) { return x * Sigmoid::of(x); }
};

// x / 2 * (1 + tanh(u)) is x * sigmoid(2 u), which loses nothing where tanh is near -1;
// u = sqrt(2 / pi) * (x + 0.044715 x^3).
struct GeluTanh {
  __device__ __forceinline__ static float of(float x) {
    constexpr float LINEAR = -2.30220819f;            // -2 log2(e) sqrt(2 / pi)
    constexpr float CUBIC = -0.102943240f;            // that times 0.044715
    const float power = x * __fmaf_rn(CUBIC, x * x, LINEAR);
    return x * ptx::rcp_approx_ftz(1.f + ptx::ex2_approx_ftz(power));
  }
};

// x * P, where P(x) = erfc(-x / sqrt(2)) / 2. P(-a) = 2^(a * p(a) - 1), with a polynomial p that is
// a minimax fit on [0, 7] and falls without end beyond: no branch, and no cancellation below 0.
struct Gelu {
  __device__ __forceinline__ static float of(float x) {
    const float a = fabsf(x);
    float p = -8.99958730e-09f;
    p = __fmaf_rn(p, a, 3.25267283e-07f);
    p = __fmaf_rn(p, a, -4.94351164e-06f);
    p = __fmaf_rn(p, a, 3.93838010e-05f);
    p = __fmaf_rn(p, a, -1.44404650e-04f);
    p = __fmaf_rn(p, a, -2.98107479e-04f);
    p = __fmaf_rn(p, a, 7.33454619e-03f);
    p = __fmaf_rn(p, a, -5.27187847e-02f);
    p = __fmaf_rn(p, a, -4.59126413e-01f);
    p = __fmaf_rn(p, a, -1.15111482f);
    const float below = ptx::ex2_approx_ftz(__fmaf_rn(p, a, -1.f));
    return x * (x < 0.f ? below : 1.f - below);
  }
};

template <class FUNCTION>
struct Map {
  __device__ __forceinline__ void select(int) {}
  __device__ __forceinline__ float operator()(float x, int, int) const { return FUNCTION::of(x); }
};

// One column of the result from two of the product: FUNCTION(gate) * up.
template <class FUNCTION>
struct alignas(8) Gate {
  int columns, unused;
  __device__ __forceinline__ void select(int) {}
  __device__ __forceinline__ float operator()(float gate, float up, int, int) const {
    return FUNCTION::of(gate) * up;
  }
};

// cap * tanh(x / cap): linear near 0, within ±cap everywhere.
struct alignas(8) Softcap {
  float cap, inverse;
  __device__ __forceinline__ void select(int) {}
  __device__ __forceinline__ float operator()(float x, int, int) const {
    return cap * tanhf(x * inverse);
  }
};

}  // namespace tile
