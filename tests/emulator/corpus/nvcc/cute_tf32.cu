// cute_tf32: m16n8k8 of tf32.
#include "cute_gemm.cuh"
TENSOR_CORE_GEMM(tfloat32_t, float, SM80_16x8x8_F32TF32TF32F32_TN, 64, 32, 32, 3)
