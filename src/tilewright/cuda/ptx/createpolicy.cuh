#pragma once
// PTX ISA, "Data Movement and Conversion Instructions: createpolicy" (sm_80 and later): how L2
// should treat the lines of the accesses that are given the policy.
namespace ptx {

struct cache_policy { unsigned long long bits; };

// For what is read once: the first to be dropped.
__device__ __forceinline__ cache_policy createpolicy_evict_first() {
  cache_policy policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy.bits));
  return policy;
}

// For what many blocks read: the last to be dropped.
__device__ __forceinline__ cache_policy createpolicy_evict_last() {
  cache_policy policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy.bits));
  return policy;
}

}  // namespace ptx
