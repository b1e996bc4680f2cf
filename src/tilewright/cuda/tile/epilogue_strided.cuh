#pragma once
#include "ptx/cvt_f32.cuh"
// Epilogues with a second operand: a matrix anywhere in memory, a vector along either edge of the
// tile (stride 0 across it), or one number. Each element is read where it is used; a vector by the
// read-only path, so that the compiler may load it once for all rows. A whole matrix may be the
// result's own memory: a thread reads an element before it alone writes it.
namespace tile {

constexpr int ANY = -1;                               // a stride that only the launch knows

// Strides count elements; ROW_STRIDE and COL_STRIDE are 0, 1 or ANY.
template <class T, int ROW_STRIDE, int COL_STRIDE>
struct alignas(8) Strided {
  const T* data;
  long long row_stride, col_stride, batch_stride;

  __device__ __forceinline__ void select(int batch) { data += batch * batch_stride; }

  __device__ __forceinline__ float at(int row, int col) const {
    const T* from = data + row * (ROW_STRIDE == ANY ? row_stride : ROW_STRIDE) +
                    col * (COL_STRIDE == ANY ? col_stride : COL_STRIDE);
    if constexpr (ROW_STRIDE != 0 && COL_STRIDE != 0) return ptx::cvt_f32(*from);
    else return ptx::cvt_f32(read_only(from));
  }

 private:
  __device__ __forceinline__ static float read_only(const float* from) { return __ldg(from); }
  template <class HALF>
  __device__ __forceinline__ static HALF read_only(const HALF* from) {
    return {__ldg(&from->bits)};
  }
};

// x + operand: a bias, a residual.
template <class T, int ROW_STRIDE, int COL_STRIDE>
struct Add : Strided<T, ROW_STRIDE, COL_STRIDE> {
  __device__ __forceinline__ float operator()(float x, int row, int col) const {
    return x + this->at(row, col);
  }
};

// x * operand: a scale.
template <class T, int ROW_STRIDE, int COL_STRIDE>
struct Times : Strided<T, ROW_STRIDE, COL_STRIDE> {
  __device__ __forceinline__ float operator()(float x, int row, int col) const {
    return x * this->at(row, col);
  }
};

// x + beta * C.
template <class T, int ROW_STRIDE, int COL_STRIDE>
struct AddC {
  Strided<T, ROW_STRIDE, COL_STRIDE> c;
  float beta;
  int unused;

  __device__ __forceinline__ void select(int batch) { c.select(batch); }
  __device__ __forceinline__ float operator()(float x, int row, int col) const {
    return __fmaf_rn(beta, c.at(row, col), x);
  }
};

}  // namespace tile
