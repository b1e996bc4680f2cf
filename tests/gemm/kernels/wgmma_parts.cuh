#pragma once
// Parts of an epilogue, for test_wgmma.py: as gemm/part.py wants them.
namespace test {

struct alignas(8) Tilt {                              // its own for each row and column
  float factor, slope;
  __device__ void select(int) {}
  __device__ float operator()(float x, int row, int col) const {
    return x * factor + slope * (3 * row - col);
  }
};

struct alignas(8) Table {                             // + at[row, col] of a matrix of the batch
  const float* at;
  long long row, col, matrix;
  __device__ void select(int batch) { at += batch * matrix; }
  __device__ float operator()(float x, int m, int n) const { return x + at[m * row + n * col]; }
};

struct alignas(8) Gate {                              // the gate where it is positive, times up
  unsigned long long unused;
  __device__ void select(int) {}
  __device__ float operator()(float gate, float up, int row, int col) const {
    return (gate > 0 ? gate : 0.f) * up + (row - col);
  }
};

}  // namespace test
