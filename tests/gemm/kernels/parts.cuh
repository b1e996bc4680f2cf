#pragma once
#include "tile/epilogue.cuh"
// Parts of an epilogue for tests; conftest.py has their Python. Each reads one vector of fp32, of
// which every matrix of the batch has its own.
namespace test {

struct Shift {                                        // a bias along N
  const float* at;
  long long batch;
  __device__ void select(int matrix) { at += matrix * batch; }
  __device__ float operator()(float x, int, int col) const { return x + at[col]; }
};

struct Weigh {                                        // a factor for each row
  const float* at;
  long long batch;
  __device__ void select(int matrix) { at += matrix * batch; }
  __device__ float operator()(float x, int row, int) const { return x * at[row]; }
};

struct Gate {                                         // a product of the two, beside a bias
  const float* at;
  long long batch;
  __device__ void select(int matrix) { at += matrix * batch; }
  __device__ float operator()(float gate, float up, int, int col) const {
    return gate * up + at[col];
  }
};

}  // namespace test

namespace tile {

template <class FIRST>
struct Then<FIRST, test::Weigh> {
  FIRST first;
  test::Weigh second;
  __device__ void select(int matrix) { first.select(matrix), second.select(matrix); }
  template <class... SUMS>
  __device__ float operator()(SUMS... sums) const { return apply(sums...); }

 private:
  __device__ float apply(float x, int row, int col) const {
    return second(first(x, row, col), row, col);
  }
  __device__ float apply(float gate, float up, int row, int col) const {
    return second(first(gate, up, row, col), row, col);
  }
};

}  // namespace tile
