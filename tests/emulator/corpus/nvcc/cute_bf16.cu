// cute_bf16: the same in bf16, with other tiles and two stages.
#include "cute_gemm.cuh"
TENSOR_CORE_GEMM(bfloat16_t, float, SM80_16x8x16_F32BF16BF16F32_TN, 32, 64, 64, 2)
