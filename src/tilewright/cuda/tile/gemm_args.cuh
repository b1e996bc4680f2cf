#pragma once
#include "ptx/element.cuh"
// The parameters of every GEMM kernel; launch.py builds the same record in Python, and its
// size arrives as a macro so that the two cannot drift apart.
using T = ELEMENT;

struct GemmArgs {                                     // C[M, N] = A[M, K] * B[K, N], row-major
  const T* A;
  const T* B;
  T* C;
  int M, N, K;
};

static_assert(sizeof(GemmArgs) == GEMM_ARGS_BYTES, "launch.py and gemm_args.cuh disagree");
