#pragma once
#include "ptx/address.cuh"
// PTX ISA, "Data Movement and Conversion Instructions: cvt", from .f32 to .tf32.
namespace ptx {

// Called by tile/round_tf32.cuh from sm_90 on: nearest, ties to even. One machine instruction.
__device__ __forceinline__ u32 cvt_rn_tf32(float value) {
  u32 tf32;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(value));
  return tf32;
}

// Called by tile/round_tf32.cuh before sm_90: nearest, ties away from zero. Three or four.
__device__ __forceinline__ u32 cvt_rna_tf32(float value) {
  u32 tf32;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(value));
  return tf32;
}

}  // namespace ptx
