#pragma once
// For device code: the driver's types that kernels take.
#include <stdint.h>
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;
typedef struct alignas(64) CUtensorMap_st {
  cuuint64_t opaque[16];
} CUtensorMap;
