// cub_rank: stable ranks of 512 keys by digits, the heart of CUB's radix sorts of whole arrays.
#include <cub/agent/agent_radix_sort_onesweep.cuh>
#include <cub/block/block_radix_rank.cuh>

struct Ignore {
  template <int N>
  __device__ void operator()(int (&)[N]) {}
};

// By 8 bits with words of matching lanes in shared memory, and by 5 bits with votes.
extern "C" __global__ void rank(int* by_atomics, int* by_votes, const unsigned* x) {
  using Atomics = cub::BlockRadixRankMatchEarlyCounts<128, 8, false, cub::BLOCK_SCAN_WARP_SCANS,
                                                      cub::WARP_MATCH_ATOMIC_OR>;
  using Votes = cub::BlockRadixRankMatch<128, 5, false>;
  __shared__ typename Atomics::TempStorage a;
  __shared__ typename Votes::TempStorage b;
  unsigned keys[4];
  int ranks[4], counts[2], first = threadIdx.x / 32 * 128 + threadIdx.x % 32;
  for (int i = 0; i < 4; ++i) keys[i] = x[first + 32 * i];
  Atomics(a).RankKeys(keys, ranks, cub::BFEDigitExtractor<unsigned>(0, 8), counts, Ignore{});
  for (int i = 0; i < 4; ++i) by_atomics[first + 32 * i] = ranks[i];
  Votes(b).RankKeys(keys, ranks, cub::BFEDigitExtractor<unsigned>(3, 5));
  for (int i = 0; i < 4; ++i) by_votes[first + 32 * i] = ranks[i];
}
