#pragma once
// The two 16-bit element types, as bits: no CUDA header, so NVRTC needs nothing but this folder.
struct bf16 { unsigned short bits; };
struct fp16 { unsigned short bits; };
