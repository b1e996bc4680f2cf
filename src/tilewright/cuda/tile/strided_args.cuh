#pragma once
#include "ptx/element.cuh"
// The parameters of GEMM kernels that take matrices with any strides; gemm/kernels/strided.py has
// the same record, and its size and offsets arrive as macros so that the two cannot drift apart.
// Strides count elements and may be 0 or negative; those of a batch lie between its matrices.
using T = ELEMENT;
using i64 = long long;

struct StridedArgs {                                  // D[M, N / COLUMNS] = e(A[M, K] * B[K, N])
  const T* A;
  const T* B;
  OUT* D;
  i64 A_row, A_col, A_batch;
  i64 B_row, B_col, B_batch;
  i64 D_row, D_col, D_batch;
  int M, N, K;
};

#define AT(FIELD) __INTADDR__(&((StridedArgs*)0)->FIELD)  // offsetof, also for NVRTC before 13.5
static_assert(sizeof(StridedArgs) == STRIDED_ARGS_BYTES && AT(A) == STRIDED_ARGS_A &&
                  AT(B) == STRIDED_ARGS_B && AT(D) == STRIDED_ARGS_D &&
                  AT(A_row) == STRIDED_ARGS_A_ROW && AT(A_col) == STRIDED_ARGS_A_COL &&
                  AT(A_batch) == STRIDED_ARGS_A_BATCH && AT(B_row) == STRIDED_ARGS_B_ROW &&
                  AT(B_col) == STRIDED_ARGS_B_COL && AT(B_batch) == STRIDED_ARGS_B_BATCH &&
                  AT(D_row) == STRIDED_ARGS_D_ROW && AT(D_col) == STRIDED_ARGS_D_COL &&
                  AT(D_batch) == STRIDED_ARGS_D_BATCH && AT(M) == STRIDED_ARGS_M &&
                  AT(N) == STRIDED_ARGS_N && AT(K) == STRIDED_ARGS_K,
              "strided.py and strided_args.cuh disagree");
#undef AT
static_assert(sizeof(EPILOGUE) == EPILOGUE_BYTES, "the epilogue's fields and its C++ type disagree");
