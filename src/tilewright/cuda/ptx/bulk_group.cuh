#pragma once
// PTX ISA, "cp.async.bulk.commit_group" and "cp.async.bulk.wait_group" (sm_90 and later). The
// groups are the calling thread's own: who stores must also commit and wait.
namespace ptx {

// Closes the group of the bulk stores that this thread has issued since its last commit.
__device__ __forceinline__ void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most PENDING of this thread's newest groups have not been written in full.
template <int PENDING>
__device__ __forceinline__ void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" :: "n"(PENDING) : "memory");
}

// The same, but only until they have read their shared memory, which may then be overwritten.
template <int PENDING>
__device__ __forceinline__ void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(PENDING) : "memory");
}

}  // namespace ptx
