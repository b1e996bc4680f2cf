#pragma once
#include "ptx/element.cuh"
#include "ptx/tensor_map.cuh"
// The parameters of the product op's Hopper kernel; gemm/kernels/wgmma_step.py has the same record
// in Python, and its size and offsets arrive as macros so that the two cannot drift apart.
using T = ELEMENT;

struct WgmmaArgs {                                    // D[M, N] = A[M, K] * B[K, N], a batch
  TensorMap A_map;                                    // of rank 3: matrices along z
  TensorMap B_map;
#ifdef WGMMA_ARGS_OUT_MAP
  TensorMap out_map;                                  // only where TMA stores
#endif
  OUT* out;
  long long out_row, out_col, out_matrix;             // strides of D in elements, for plain stores
  int M, N, K, batch;                                 // N is D's: B has 2 * N columns with a gate
  int split_steps;                                    // of K, in a split; matrices of D: batch each
  int splits;
  int A_step, B_step;                                 // 1, or 0 where all matrices are the same
};

#define AT(FIELD) __INTADDR__(&((WgmmaArgs*)0)->FIELD)  // offsetof, also for NVRTC before 13.5
static_assert(sizeof(WgmmaArgs) == WGMMA_ARGS_BYTES && AT(A_map) == WGMMA_ARGS_A_MAP &&
                  AT(B_map) == WGMMA_ARGS_B_MAP && AT(out) == WGMMA_ARGS_OUT &&
                  AT(out_row) == WGMMA_ARGS_OUT_ROW && AT(out_col) == WGMMA_ARGS_OUT_COL &&
                  AT(out_matrix) == WGMMA_ARGS_OUT_MATRIX && AT(M) == WGMMA_ARGS_M &&
                  AT(N) == WGMMA_ARGS_N && AT(K) == WGMMA_ARGS_K &&
                  AT(batch) == WGMMA_ARGS_BATCH &&
                  AT(split_steps) == WGMMA_ARGS_SPLIT_STEPS && AT(splits) == WGMMA_ARGS_SPLITS &&
                  AT(A_step) == WGMMA_ARGS_A_STEP && AT(B_step) == WGMMA_ARGS_B_STEP,
              "wgmma_step.py and wgmma_args.cuh disagree");
static_assert(sizeof(EPILOGUE) == EPILOGUE_BYTES, "the epilogue's fields and C++ type disagree");
#ifdef WGMMA_ARGS_OUT_MAP
static_assert(AT(out_map) == WGMMA_ARGS_OUT_MAP, "wgmma_step.py and wgmma_args.cuh disagree");
#endif
#undef AT
