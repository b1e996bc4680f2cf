#pragma once
#include "ptx/element.cuh"
#include "ptx/tensor_map.cuh"
// The parameters of a GEMM kernel that copies by TMA; launch.py has the same record in Python, and
// its size and offsets arrive as macros so that the two cannot drift apart.
using T = ELEMENT;

struct TmaGemmArgs {                                  // C[M, N] = A[M, K] * B[K, N]
  TensorMap A_map;                                    // what lies where and the boxes: the rung
  TensorMap B_map;                                    // table, for each layout of A and B
  TensorMap C_map;
  T* C;                                               // row-major, as C_map: for plain stores
  int M, N, K;
};

#define AT(FIELD) __INTADDR__(&((TmaGemmArgs*)0)->FIELD)  // offsetof, also for NVRTC before 13.5
static_assert(sizeof(TmaGemmArgs) == TMA_GEMM_ARGS_BYTES &&
                  AT(A_map) == TMA_GEMM_ARGS_A_MAP && AT(B_map) == TMA_GEMM_ARGS_B_MAP &&
                  AT(C_map) == TMA_GEMM_ARGS_C_MAP && AT(C) == TMA_GEMM_ARGS_C &&
                  AT(M) == TMA_GEMM_ARGS_M && AT(N) == TMA_GEMM_ARGS_N && AT(K) == TMA_GEMM_ARGS_K,
              "launch.py and tma_gemm_args.cuh disagree");
#undef AT
