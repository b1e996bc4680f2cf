#pragma once
// PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol" (sm_90 and
// later): kernels of one stream that overlap, where the later one's Launch has `overlap`.
namespace ptx {

// Before the first access to what the kernel before this one wrote: waits for its end.
__device__ __forceinline__ void griddepcontrol_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// The next kernel's blocks may start once every block of this one has said so or ended.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace ptx
