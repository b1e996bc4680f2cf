#pragma once
// PTX ISA, "Miscellaneous Instructions: setmaxnreg" (sm_90a and later).
// All four warps of a warpgroup call it, with a multiple of 8 between 24 and 256.
namespace ptx {

// Waits until the block has registers free, and takes so many a thread: a consumer.
template <int REGISTERS>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(REGISTERS));
}

// Gives back all but so many a thread: a producer, which needs few.
template <int REGISTERS>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(REGISTERS));
}

}  // namespace ptx
