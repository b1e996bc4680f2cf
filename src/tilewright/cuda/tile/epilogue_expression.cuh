#pragma once
// A user's own formula as a type that spells its tree (gemm/expression.py makes it from text), so
// that no text of a user's reaches the compiler. All of it is fp32, row and col as well.
namespace tile {

struct X {
  __device__ __forceinline__ static float of(float x, int, int) { return x; }
};
struct Row {
  __device__ __forceinline__ static float of(float, int row, int) { return float(row); }
};
struct Col {
  __device__ __forceinline__ static float of(float, int, int col) { return float(col); }
};
template <unsigned BITS>                              // of an fp32 number
struct Number {
  __device__ __forceinline__ static float of(float, int, int) { return __uint_as_float(BITS); }
};

#define OF_ONE(NAME, VALUE)                                                          \
  template <class A>                                                                 \
  struct NAME {                                                                      \
    __device__ __forceinline__ static float of(float x, int row, int col) {          \
      const float a = A::of(x, row, col);                                            \
      return VALUE;                                                                  \
    }                                                                                \
  };
#define OF_TWO(NAME, VALUE)                                                          \
  template <class A, class B>                                                        \
  struct NAME {                                                                      \
    __device__ __forceinline__ static float of(float x, int row, int col) {          \
      const float a = A::of(x, row, col), b = B::of(x, row, col);                    \
      return VALUE;                                                                  \
    }                                                                                \
  };

OF_ONE(Minus, -a)
OF_ONE(Not, a == 0.f ? 1.f : 0.f)
OF_ONE(Fabs, fabsf(a))
OF_ONE(Exp, expf(a))
OF_ONE(Exp2, exp2f(a))
OF_ONE(Log, logf(a))
OF_ONE(Log2, log2f(a))
OF_ONE(Sqrt, sqrtf(a))
OF_ONE(Rsqrt, rsqrtf(a))
OF_ONE(TanhOf, tanhf(a))
OF_ONE(Erf, erff(a))
OF_ONE(Floor, floorf(a))
OF_ONE(Ceil, ceilf(a))
OF_TWO(Sum, a + b)
OF_TWO(Difference, a - b)
OF_TWO(Product, a * b)
OF_TWO(Quotient, a / b)
OF_TWO(Fmin, fminf(a, b))
OF_TWO(Fmax, fmaxf(a, b))
OF_TWO(Less, a < b ? 1.f : 0.f)
OF_TWO(AtMost, a <= b ? 1.f : 0.f)
OF_TWO(Equal, a == b ? 1.f : 0.f)
OF_TWO(And, a != 0.f && b != 0.f ? 1.f : 0.f)
OF_TWO(Or, a != 0.f || b != 0.f ? 1.f : 0.f)
#undef OF_ONE
#undef OF_TWO

template <class CONDITION, class A, class B>
struct Either {
  __device__ __forceinline__ static float of(float x, int row, int col) {
    return CONDITION::of(x, row, col) != 0.f ? A::of(x, row, col) : B::of(x, row, col);
  }
};

template <class TREE>
struct Expression {
  __device__ __forceinline__ void select(int) {}
  __device__ __forceinline__ float operator()(float x, int row, int col) const {
    return TREE::of(x, row, col);
  }
};

}  // namespace tile
