#pragma once
// For device code: NVRTC knows threadIdx, blockIdx, blockDim, gridDim and warpSize.
