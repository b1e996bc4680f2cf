// cute_int8: m16n8k32 of int8 with sums in int32.
#include "cute_gemm.cuh"
TENSOR_CORE_GEMM(int8_t, int, SM80_16x8x32_S32S8S8S32_TN, 64, 64, 128, 2)
