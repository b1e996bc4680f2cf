#pragma once
#include "ptx/element.cuh"
// Parts of an epilogue, for tests: as gemm/part.py wants them.
namespace test {

struct alignas(8) Shift {                             // x * factor + 1 at odd columns, else x
  float factor, unused;
  __device__ void select(int) {}
  __device__ float operator()(float x, int, int col) const { return col % 2 ? x * factor + 1 : x; }
};

struct alignas(8) Table {                             // + at[row, col], fp32 of any strides
  const float* at;
  long long row, col, batch;
  __device__ void select(int matrix) { at += matrix * batch; }
  __device__ float operator()(float x, int m, int n) const { return x + at[m * row + n * col]; }
};

struct alignas(8) Gate {                              // gate where it is positive, times up
  unsigned long long unused;
  __device__ void select(int) {}
  __device__ float operator()(float gate, float up, int, int) const {
    return (gate > 0 ? gate : 0.f) * up;
  }
};

template <class FIRST, class SECOND>
struct Both {
  FIRST first;
  SECOND second;
  __device__ void select(int matrix) {
    first.select(matrix);
    second.select(matrix);
  }
  __device__ float operator()(float x, int row, int col) const {
    return second(first(x, row, col), row, col);
  }
};

}  // namespace test
