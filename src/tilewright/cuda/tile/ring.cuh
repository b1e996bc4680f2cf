#pragma once
// A place in a ring of SLOTS buffers, and how often it has been round.
namespace tile {

// `phase` flips with every lap. A consumer waits until full[slot] has completed `phase`, a producer
// until empty[slot] has completed `phase ^ 1`: that counts as done on a fresh barrier, so the first
// lap never waits and no buffer has to be released at the start.
template <int SLOTS>
struct Ring {
  int slot = 0;
  unsigned phase = 0;

  __device__ __forceinline__ void advance() {
    if (++slot == SLOTS) {
      slot = 0;
      phase ^= 1;
    }
  }
};

}  // namespace tile
