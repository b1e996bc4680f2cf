#pragma once
// In which order blocks walk the tiles of C: the model's raster.py says the same in Python.
namespace tile {

struct Tile { int m, n; };

// Panels of WIDTH tile columns, each walked row by row, so that neighbouring blocks share
// rows of A and a panel of B that stays in L2. The last panel is as wide as what is left,
// which makes this a bijection from block ids onto tiles_m x tiles_n for every grid.
template <int WIDTH>
__device__ __forceinline__ Tile raster(int id, int tiles_m, int tiles_n) {
  const int panel = id / (WIDTH * tiles_m), first = panel * WIDTH;
  const int width = min(WIDTH, tiles_n - first), inside = id - first * tiles_m;
  return {inside / width, first + inside % width};
}

}  // namespace tile
