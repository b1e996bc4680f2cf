#pragma once
#include "tile/raster.cuh"
// An order of tiles that never jumps: the model's raster.py says the same in Python.
namespace tile {

// As raster, but every second panel is walked upwards: where a panel ends the next begins, with the
// same rows of A.
template <int WIDTH>
__device__ __forceinline__ Tile serpentine(int id, int tiles_m, int tiles_n) {
  const Tile at = raster<WIDTH>(id, tiles_m, tiles_n);
  return at.n / WIDTH % 2 ? Tile{tiles_m - 1 - at.m, at.n} : at;
}

}  // namespace tile
