#pragma once
// The two 16-bit element types, as bits: no CUDA header, so NVRTC needs nothing but this folder.
// The ISA calls them .bf16 and .f16; PTX ISA, "Fundamental Types" and "Alternate Floating-Point".
struct bf16 { unsigned short bits; };
struct fp16 { unsigned short bits; };
