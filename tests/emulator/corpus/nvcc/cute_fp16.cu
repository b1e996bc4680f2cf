// cute_fp16: three stages of cp.async into swizzled tiles, ldmatrix, m16n8k16.
#include "cute_gemm.cuh"
TENSOR_CORE_GEMM(half_t, float, SM80_16x8x16_F32F16F16F32_TN, 64, 64, 64, 3)
