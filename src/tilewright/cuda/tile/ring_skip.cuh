#pragma once
#include "tile/ring.cuh"
// A ring of which several consumers take turns at stretches.
namespace tile {

template <int SLOTS>
struct SkippingRing : Ring<SLOTS> {
  // Past what another consumer takes.
  __device__ __forceinline__ void skip(int steps) {
    const int to = this->slot + steps;
    this->slot = to % SLOTS;
    this->phase ^= to / SLOTS & 1;
  }
};

}  // namespace tile
